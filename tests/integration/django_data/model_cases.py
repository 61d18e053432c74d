"""Migrations and models in a Django project, run with the URLs of three empty databases.

Not collected by pytest, since Django is set up once for a process. `test_django_data.py` runs it.
"""

from __future__ import annotations

import sys
import unittest
from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Any

import pytest

from tests.integration.django_data.djproject import set_up

if __name__ != "__main__":
    raise ImportError("run this as a program")


class NotInTheSecond:
    """A router that keeps the app's tables out of a database."""

    def allow_migrate(self, db: str, app_label: str, **hints: object) -> bool | None:
        """Say no for that."""
        return False if db == "db2" and app_label == "mutirao" else None


URLS = sys.argv[1:4]
set_up(*URLS, DATABASE_ROUTERS=[NotInTheSecond()])

from django.apps import apps  # noqa: E402 (it needs the settings)
from django.core.management import call_command  # noqa: E402
from django.db import connection, connections, transaction  # noqa: E402
from django.db.migrations.exceptions import IrreversibleError  # noqa: E402
from django.db.migrations.loader import MigrationLoader  # noqa: E402
from django.db.migrations.state import ModelState  # noqa: E402
from django.db.models import Max  # noqa: E402
from django.test import override_settings  # noqa: E402

from mutirao import Mutirao, Retry  # noqa: E402
from mutirao.errors import WrongState  # noqa: E402
from mutirao.integrations.django import app  # noqa: E402
from mutirao.integrations.django.models import Attempt, Job  # noqa: E402
from mutirao.integrations.django.tables.run_revision import RunMutirao  # noqa: E402
from mutirao.sql import migrations  # noqa: E402
from mutirao.sql.schema import version, views  # noqa: E402
from mutirao.testing import drain  # noqa: E402

PLAIN = {"verbosity": 0, "interactive": False}


@app.task(retry=Retry.never(), keep_result=True)
def double(number: int) -> int:
    """Return twice a number; refuse what is none."""
    if number < 0:
        raise ValueError(number)
    return 2 * number


def found(alias: str = "default") -> tuple[object, ...] | None:
    """Return the revision and the fingerprint of a database."""
    with connections[alias].cursor() as cursor:
        cursor.execute("SELECT version_num, fingerprint FROM mutirao_version")
        row: tuple[object, ...] | None = cursor.fetchone()
        return row


def wanted() -> tuple[object, ...]:
    """Return those of a database that `mutirao migrate` has made."""
    at = Mutirao(URLS[0])
    return version.head(), version.fingerprint(at._engines.dialect)


class Migrating(unittest.TestCase):
    """Both roads lead to the same tables."""

    def test_django_first(self) -> None:
        """What `migrate` has made is what `mutirao migrate` makes: it has nothing to do."""
        assert found() == wanted()
        migrations.upgrade(URLS[0])
        assert found() == wanted()

    def test_alembic_first(self) -> None:
        """Half of the way or all of it, `migrate` goes on from there; with jobs that are there."""
        alias = "db1"
        opened = connections[alias]
        opened.ensure_connection()
        with transaction.atomic(alias):
            migrations.upgrade_within(opened.connection, version.REVISIONS[0])
        other = Mutirao(URLS[1])
        call_command("migrate", database=alias, **PLAIN)
        assert found(alias) == wanted()
        other.task(print).enqueue()
        assert Job.objects.using(alias).count() == 1
        call_command("migrate", "mutirao", "0001", "--fake", database=alias, **PLAIN)
        other.migrate()
        call_command("migrate", database=alias, **PLAIN)
        assert (found(alias), Job.objects.using(alias).count()) == (wanted(), 1)
        other.close()

    def test_routers_say_where(self) -> None:
        """Where they do not allow it, nothing is made, though Django notes the migrations."""
        call_command("migrate", database="db2", **PLAIN)
        there = connections["db2"].introspection.table_names(include_views=True)
        assert "django_migrations" in there
        assert [each for each in there if each.startswith("mutirao")] == []

    def test_no_request_s_transaction_is_around_the_dashboard(self) -> None:
        """With ATOMIC_REQUESTS of any database: on SQLite it would wait for the request's lock."""
        from mutirao.integrations.django.urls import urlpatterns

        left_out = urlpatterns[0].callback._non_atomic_requests
        assert left_out == {"default", "db1", "db2"}

    def test_the_session_is_as_it_was(self) -> None:
        """A migration leaves no setting behind."""
        question = {
            "postgresql": "SHOW search_path",
            "mysql": "SELECT @@sql_mode, @@time_zone, @@group_concat_max_len",
            "sqlite": "PRAGMA foreign_keys",
        }[connection.vendor]

        def ask() -> Any:
            with connection.cursor() as cursor:
                cursor.execute(question)
                return cursor.fetchall()

        before = ask()
        with connection.schema_editor() as editor:
            RunMutirao(version.head()).database_forwards("mutirao", editor, None, None)
        assert ask() == before

    def test_no_way_back(self) -> None:
        """Revisions have none, and Django says so."""
        with pytest.raises(IrreversibleError):
            call_command("migrate", "mutirao", "zero", **PLAIN)

    def test_sql_is_shown(self) -> None:
        """`sqlmigrate` prints what is run."""
        said = ""
        for name in sorted(each for of, each in loaded().disk_migrations if of == "mutirao"):
            out = StringIO()
            call_command("sqlmigrate", "mutirao", name, stdout=out)
            said += out.getvalue()
        assert "CREATE TABLE mutirao_live" in said.replace("IF NOT EXISTS ", "")
        assert f"fingerprint='{wanted()[1]}'" in said

    def test_a_migration_for_each_revision(self) -> None:
        """Whoever adds a revision adds the file that runs it: see docs/contributing/schema.md."""
        run = [
            operation.revision
            for (label, _), migration in sorted(loaded().disk_migrations.items())
            for operation in migration.operations
            if label == "mutirao" and isinstance(operation, RunMutirao)
        ]
        assert tuple(run) == version.REVISIONS, (
            "add mutirao/integrations/django/migrations/000N_rMMMM.py"
        )

    def test_nothing_is_left_to_be_migrated(self) -> None:
        """Not by a Django that compares unmanaged models as well."""
        call_command("makemigrations", "mutirao", check_changes=True, dry_run=True, verbosity=0)
        state = loaded().project_state().models
        for model in apps.get_app_config("mutirao").get_models():
            assert state["mutirao", model._meta.model_name] == ModelState.from_model(model)

    def test_the_file_is_ready_for_workers(self) -> None:
        """An SQLite file is in WAL mode."""
        if connection.vendor == "sqlite":
            with connection.cursor() as cursor:
                assert cursor.execute("PRAGMA journal_mode").fetchone() == ("wal",)


class Models(unittest.TestCase):
    """What views show, by the ORM."""

    def setUp(self) -> None:
        """Have three jobs: succeeded, dead, waiting."""
        self.ids = [
            double.using(tenant="acme")
            .enqueue(
                number=each,
            )
            .id
            for each in (4, -4)
        ]
        drain(app)
        self.waiting = double.using(tenant="acme", priority=3).enqueue(number=8).id

    def tearDown(self) -> None:
        """Leave none waiting."""
        app.cancel(self.waiting)

    def test_columns_are_those_of_the_views(self) -> None:
        """Each view has a model, each column a field."""
        models = {
            each._meta.db_table: {
                field.column for field in each._meta.concrete_fields if field.column
            }
            for each in apps.get_app_config("mutirao").get_models()
        }
        assert models == {
            each.name: set(each.columns.keys()) for each in views.metadata.tables.values()
        }
        for model in apps.get_app_config("mutirao").get_models():
            list(model.objects.all()[:2])

    def test_jobs_are_found(self) -> None:
        """By columns, by arguments, by moments."""
        ours = Job.objects.filter(id__in=[*self.ids, self.waiting], tenant="acme")
        assert [each.state for each in ours.order_by("id")] == ["succeeded", "dead", "ready"]
        assert ours.get(args__number=-4).error_type == "ValueError"
        assert ours.get(args__number=8).args == {"number": 8}
        now = datetime.now(UTC)
        late = ours.filter(enqueued_at__gt=now - timedelta(minutes=5), enqueued_at__lte=now)
        assert late.count() == 3
        first = ours.earliest("enqueued_at")
        assert late.filter(enqueued_at__date=first.enqueued_at.date()).exists()
        assert ours.filter(enqueued_at=first.enqueued_at, id=first.id).exists()
        assert first.enqueued_at == app.job(first.id).enqueued_at
        assert ours.aggregate(last=Max("finished_at"))["last"] <= now

    def test_attempts_come_with_their_job(self) -> None:
        """In one query, or in two for many jobs."""
        attempt = Attempt.objects.select_related("job").get(job_id=self.ids[0])
        assert (attempt.job.state, attempt.result, attempt.pk) == ("succeeded", 8, (self.ids[0], 1))
        jobs = Job.objects.prefetch_related("attempts").filter(id__in=self.ids).order_by("id")
        assert [[each.outcome for each in job.attempts.all()] for job in jobs] == [
            ["succeeded"],
            ["dead"],
        ]
        assert Job.objects.filter(attempts__error_type="ValueError", id__in=self.ids).count() == 1

    def test_moments_are_local_without_time_zones(self) -> None:
        """As other fields are, with USE_TZ off."""
        aware = Job.objects.get(id=self.ids[0]).finished_at
        with override_settings(USE_TZ=False, TIME_ZONE="America/Sao_Paulo"):
            connection.close()
            naive = Job.objects.get(id=self.ids[0]).finished_at
            assert naive == aware.replace(tzinfo=None) - timedelta(hours=3)
            assert Job.objects.filter(finished_at=naive, id=self.ids[0]).exists()
        connection.close()

    def test_nothing_is_written(self) -> None:
        """Each way of Django's says what to call instead."""
        job = Job.objects.get(id=self.waiting)
        for write in (
            job.save,
            job.delete,
            Job.objects.create,
            Job.objects.all().delete,
            lambda: Job.objects.filter(id=self.waiting).update(state="dead"),
            lambda: Job.objects.bulk_create([job]),
            lambda: job.redrives.update(state="x"),
            lambda: Job.objects.get_or_create(id=0),
        ):
            with pytest.raises(WrongState, match="through the application"):
                write()
        assert Job.objects.get(id=self.waiting).state == "ready"


def loaded() -> MigrationLoader:
    """Return the migrations as Django has found them."""
    return MigrationLoader(connection)


call_command("migrate", **PLAIN)
unittest.main(argv=[sys.argv[0], *sys.argv[4:]])
