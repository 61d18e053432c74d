"""The operations of the migrations here: a revision of Mutirão, and the models over the views."""

from typing import Any

from django.db import connections, router
from django.db.migrations import Migration
from django.db.migrations.operations.base import Operation, OperationCategory
from django.db.migrations.state import ModelState

from mutirao.integrations.django import conf
from mutirao.integrations.django.tables.vendors import is_sqlite
from mutirao.sql import migrations


class RunMutirao(Operation):  # type: ignore[misc]
    """Runs a revision of the tables on Django's connection, in the migration's transaction.

    Nothing is done where `allow_migrate` says so, or `mutirao migrate` has done it already. There
    is no way back: revisions have none.

    Parameters:
        revision: such as "0102".
    """

    reversible = False
    reduces_to_sql = True
    atomic = False  # of a migration that has no transaction it makes none
    category = OperationCategory.SQL

    def __init__(self, revision: str) -> None:
        self.revision = revision

    def deconstruct(self) -> tuple[str, list[Any], dict[str, Any]]:
        """Return its form in a migration."""
        return type(self).__name__, [self.revision], {}

    def state_forwards(self, app_label: str, state: Any) -> None:
        """Change no model."""

    def database_forwards(
        self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any
    ) -> None:
        """Run the revision, or give its SQL to `sqlmigrate`."""
        connection, schema = schema_editor.connection, conf.read().schema
        if not router.allow_migrate(connection.alias, app_label, model_name="job"):
            return
        if schema_editor.collect_sql:
            sql = migrations.revision_sql(connection.vendor, self.revision, schema)
            schema_editor.collected_sql.append(sql)
            return
        connection.ensure_connection()
        migrations.upgrade_within(connection.connection, self.revision, schema)

    def describe(self) -> str:
        """Return what `migrate --plan` says."""
        return f"Run revision {self.revision} of Mutirão's tables"


class ShowViews(Operation):  # type: ignore[misc]
    """Lets the state of migrations have the models as they are now: they make no table.

    So a revision with other columns needs no operation that says so once more.
    """

    reduces_to_sql = False
    reversible = True

    def state_forwards(self, app_label: str, state: Any) -> None:
        """Add all models of the app that Django does not manage."""
        from django.apps import apps

        for model in apps.get_app_config(app_label).get_models():
            if not model._meta.managed:
                state.add_model(ModelState.from_model(model))

    def database_forwards(
        self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any
    ) -> None:
        """Do nothing."""

    database_backwards = database_forwards

    def describe(self) -> str:
        """Return what `migrate --plan` says."""
        return "Show the views as models"


def migration_of(revision: str, *, after: str | None) -> type[Migration]:
    """Return the migration that runs a revision, after the one of the revision before."""
    run = RunMutirao(revision)
    of = {
        "__doc__": f"Revision {revision} of the tables.",
        "initial": after is None,
        "dependencies": [] if after is None else [("mutirao", after)],
        "operations": [run, ShowViews()] if after is None else [run],
    }
    return type("Migration", (Migration,), of)


def prepare_file(using: str, **_: Any) -> None:
    """Put an SQLite file in WAL mode before anything is migrated: no transaction can.

    It may be that of a test, and the application has to look there, too.
    """
    from mutirao.integrations.django.project import application

    connection = connections[using]
    if using == application().alias:
        application().follow_database()
    if not is_sqlite(connection) or connection.in_atomic_block:
        return
    if not router.allow_migrate(using, "mutirao", model_name="job"):
        return
    connection.ensure_connection()
    migrations.prepare_file(connection.connection)
