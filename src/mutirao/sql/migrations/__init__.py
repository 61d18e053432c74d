"""How a database gets from one version of the schema to the next.

Alembic, driven from here: its version table is `mutirao_version`, so an application's own
`alembic_version` is never touched, and there is no alembic.ini and no env.py. Alembic's global
proxies (`op`, `context`) are not used either: a revision is `upgrade(op)`, so that any thread may
migrate.
"""

import asyncio
from contextlib import aclosing
from io import SEEK_END, StringIO
from pathlib import Path
from typing import Any

from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import URL, Connection

from mutirao.sql.dialects.admin import admin_named, admin_of
from mutirao.sql.engines import Engines
from mutirao.sql.failures import translate_errors
from mutirao.sql.schema import VERSION_TABLE, current, refuse_newer


def upgrade(url: str | URL) -> None:
    """Bring a database to the newest schema, in one transaction; safe to call again.

    `url` is for any of the drivers, synchronous or not. Any number of processes may do this at
    once: one works, the others wait for it. An SQLite file is also put in WAL mode. Not for the
    thread of a running event loop; call it in a thread of its own there.

    Raises:
        SchemaTooNew: the database was migrated by a newer version of the package.
        ConfigurationError: the database is of an unknown kind, or its driver is missing.
        StoreUnavailable: the database cannot be reached, or the role may not make tables there.
        StoreError: the database refused a statement.
    """
    engines = Engines(url)
    if engines.has_sync:
        _with_sync(engines)
    else:
        asyncio.run(_with_async(engines))


def ddl(dialect: str) -> str:
    """Return the SQL that makes the newest schema in an empty database, version table included.

    Raises:
        ConfigurationError: `dialect` is unknown; the message names those that are known.
    """
    admin = admin_named(dialect)
    output = StringIO(admin.ddl_preface)
    output.seek(0, SEEK_END)
    options = {"as_sql": True, "output_buffer": output, "transactional_ddl": True}
    context = _context(None, dialect_name=admin.name, **options)
    with context.begin_transaction():
        context.run_migrations(op=Operations(context))
    return output.getvalue()


def _upgrade(connection: Connection) -> None:
    with admin_of(connection.dialect).migrating(connection):
        found = current(connection)
        if found is not None:
            refuse_newer(found)
        context = _context(connection)
        context.run_migrations(op=Operations(context))


def _with_sync(engines: Engines) -> None:
    try:
        with translate_errors(), engines.sync().connect() as connection:
            _upgrade(connection)
    finally:
        engines.close_sync()


async def _with_async(engines: Engines) -> None:
    try:
        with translate_errors():
            connection = await engines.asynchronous().connect()
            async with aclosing(connection):
                await connection.run_sync(_upgrade)
    finally:
        await engines.close()


def _scripts() -> ScriptDirectory:
    return ScriptDirectory(str(Path(__file__).parent))


def _context(
    connection: Connection | None, dialect_name: str = "", **options: Any
) -> MigrationContext:
    scripts = _scripts()
    return MigrationContext.configure(
        connection=connection,
        dialect_name=dialect_name,
        dialect_opts={"paramstyle": "named"},  # others double each % of what is printed
        opts={
            "version_table": VERSION_TABLE,
            "script": scripts,
            "fn": lambda revision, _: scripts._upgrade_revs("head", revision),
            **options,
        },
    )
