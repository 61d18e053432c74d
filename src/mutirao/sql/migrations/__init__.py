"""The migration of a database from one version of the schema to the next.

Alembic, driven from here: its version table is `mutirao_version`, so an application's own
`alembic_version` is never touched, and there is no alembic.ini and no env.py. Alembic's global
proxies (`op`, `context`) are not used either: a revision is `upgrade(op)`, so that any thread may
migrate.
"""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from io import SEEK_END, StringIO
from pathlib import Path
from typing import Any

from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, String, TypeDecorator

from mutirao.sql.connections.borrowed import lent_connection
from mutirao.sql.connections.engines import Database, Engines
from mutirao.sql.drivers.borrowing import Lent
from mutirao.sql.drivers.failures import translate_errors
from mutirao.sql.migrations.mending import FOUND
from mutirao.sql.migrations.script import SCHEMA
from mutirao.sql.registry import TABLES_ONLY, derivation, dialect_named, dialect_of
from mutirao.sql.schema.version import (
    REVISIONS,
    VERSION_TABLE,
    check,
    current,
    head,
    refuse_unfit,
    signing,
)


def upgrade(database: Database, schema: str | None = None) -> None:
    """Bring a database to the newest schema, in one transaction; safe to call again.

    `database` is a URL for any of the drivers, synchronous or not, or an application's engine.
    `schema` is the one for the tables, made if it is missing; None: where sessions create. Any
    number of processes may do this at once: one works, the others wait for it. An SQLite file is
    also put in WAL mode. Not for the thread of a running event loop; call it in a thread of its own
    there.

    Raises:
        SchemaTooNew: the database was migrated by a newer version of the package.
        SchemaTooOld: it was migrated by a version from before the first release.
        SchemaDiffers: it was by another state of its revision.
        ConfigurationError: the database is of an unknown kind, or its driver is missing.
        StoreUnavailable: the database cannot be reached, or the role may not make tables there.
        StoreError: the database refused a statement.
    """
    Engines(database, schema=schema)  # which says what is wrong with them
    engines = Engines(database, creates=True)  # names what it makes without a schema
    if engines.has_sync:
        _with_sync(engines, schema)
    else:
        asyncio.run(_with_async(engines, schema))


def ddl(dialect: str, schema: str | None = None) -> str:
    """Return the SQL that makes the newest schema in an empty database, version table included.

    `schema` is the one for the tables; None: `public`, where a database has schemas.

    Raises:
        ConfigurationError: `dialect` is unknown; the message names those that are known. Or it has
            no schemas, and `schema` is given.
    """
    if dialect in TABLES_ONLY:
        return derivation(dialect)(ddl(TABLES_ONLY[dialect].of, schema))
    found = dialect_named(dialect)
    output = StringIO(found.admin.ddl_preface)
    output.seek(0, SEEK_END)
    options: dict[str, Any] = {
        "as_sql": True,
        "output_buffer": output,
        "transactional_ddl": True,
        SCHEMA: schema,
    }
    context = _context(None, dialect_name=found.name, **options)
    with context.begin_transaction():
        _enter(context, schema)
        context.run_migrations(op=Operations(context))
        Operations(context).execute(signing(found))
    return output.getvalue()


def upgrade_within(conn: object, revision: str, schema: str | None = None) -> bool:
    """Bring the database of a caller's connection to a revision, unless it is there or further.

    Statements run in the transaction that is open there, which the caller ends; where none is, or
    the database ends it at each change of a table, a migration that was cut off is done again from
    its beginning. Others wait meanwhile, `upgrade` as well. Returns whether anything was to do.

    Parameters:
        conn: a driver's own connection: of psycopg, psycopg2, sqlite3, PyMySQL or mysqlclient.
        revision: one of `REVISIONS`.
        schema: the schema of the tables; None: where sessions create.

    Raises:
        UnsupportedConnection: the connection is of another driver.
        SchemaTooNew, SchemaTooOld, SchemaDiffers, StoreError: as `upgrade` does.
    """
    with translate_errors(), lent_connection(Lent(conn)) as connection:
        admin = dialect_of(connection.dialect).admin
        with admin.migrating_within(connection):
            options: dict[str, Any] = {SCHEMA: schema}
            context = _context(connection, to=revision, **options)
            _enter(context, schema)
            return _bring(connection, context, revision)


def _bring(connection: Connection, context: MigrationContext, revision: str) -> bool:
    found = current(connection)
    if found is not None:
        refuse_unfit(connection, found)
        if REVISIONS.index(found.revision) >= REVISIONS.index(revision):
            return False
        context.opts[FOUND] = found.revision
    context.run_migrations(op=Operations(context))
    if revision != REVISIONS[0]:  # which has no column for it
        connection.execute(signing(dialect_of(connection.dialect), revision))
    return True


def check_within(conn: object) -> None:
    """Raise an error if the tables in the database of a caller's connection do not fit.

    Parameters:
        conn: a driver's own connection, as for `upgrade_within`, which finds the tables.

    Raises:
        SchemaMissing, SchemaTooOld, SchemaTooNew, SchemaDiffers: they do not fit the package.
        StoreError: the database refused a statement.
    """
    with translate_errors(), lent_connection(Lent(conn)) as connection:
        check(connection)


def prepare_file(conn: object) -> None:
    """Do steps that no transaction can do, before `upgrade_within`: put an SQLite file in WAL mode.

    Parameters:
        conn: a driver's own connection, without a transaction.
    """
    with translate_errors(), lent_connection(Lent(conn)) as connection:
        dialect_of(connection.dialect).admin.prepare_file(connection)


def revision_sql(dialect: str, revision: str, schema: str | None = None) -> str:
    """Return the SQL that brings a database from the revision before to this one.

    Parameters:
        dialect: the kind of database.
        revision: one of `REVISIONS`.
        schema: the schema of the tables; None: `public`, where a database has schemas.

    Raises:
        ConfigurationError: the dialect is unknown, or has no schemas.
    """
    found, output = dialect_named(dialect), StringIO()
    before = REVISIONS.index(revision) - 1
    options: dict[str, Any] = {
        "as_sql": True,
        "output_buffer": output,
        SCHEMA: schema,
        "starting_rev": REVISIONS[before] if before >= 0 else None,
    }
    context = _context(None, dialect_name=found.name, to=revision, **options)
    _enter(context, schema)
    context.run_migrations(op=Operations(context))
    if revision == head():
        Operations(context).execute(signing(found))
    return output.getvalue().strip()


def _upgrade(connection: Connection, *later: Path, schema: str | None = None) -> None:
    """Run all revisions, also those in the directories `later`, which a test uses."""
    with dialect_of(connection.dialect).admin.migrating(connection):
        options: dict[str, Any] = {SCHEMA: schema}
        context = _context(connection, later=later, **options)
        _enter(context, schema)
        found = current(connection)
        if found is not None:
            refuse_unfit(connection, found)
            context.opts[FOUND] = found.revision
        context.run_migrations(op=Operations(context))
        if found is None or found.revision != head():
            connection.execute(signing(dialect_of(connection.dialect)))


def _enter(context: MigrationContext, schema: str | None) -> None:
    if schema is not None:
        connection = None if context.as_sql else context.connection
        for statement in dialect_of(context.dialect).admin.entering(schema, connection):
            Operations(context).execute(statement)


def _with_sync(engines: Engines, schema: str | None) -> None:
    try:
        with translate_errors(), engines.sync().connect() as connection:
            _upgrade(connection, schema=schema)
    finally:
        engines.close_sync()


async def _with_async(engines: Engines, schema: str | None) -> None:
    try:
        with translate_errors():
            connection = await engines.asynchronous().connect()
            async with aclosing(connection):
                await connection.run_sync(_upgrade, schema=schema)
    finally:
        await engines.close()


def _scripts(later: Sequence[Path]) -> ScriptDirectory:
    here = Path(__file__).parent
    return ScriptDirectory(str(here), version_locations=[*map(str, (here / "versions", *later))])


def _context(
    connection: Connection | None,
    dialect_name: str = "",
    later: Sequence[Path] = (),
    to: str = "head",
    **options: Any,
) -> MigrationContext:
    scripts = _scripts(later)
    context = MigrationContext.configure(
        connection=connection,
        dialect_name=dialect_name,
        dialect_opts={"paramstyle": "named"},  # others double each % of what is printed
        opts={
            "version_table": VERSION_TABLE,
            "script": scripts,
            "fn": lambda revision, _: scripts._upgrade_revs(to, revision),
            **options,
        },
    )
    context._version.c.version_num.type = _Revision()
    return context


class _Revision(TypeDecorator[str]):
    """A revision, which is read as bytes in a database whose character set is binary."""

    impl, cache_ok = String(32), True

    def process_result_value(self, value: str | bytes | None, dialect: object) -> str | None:
        return value.decode() if isinstance(value, bytes) else value
