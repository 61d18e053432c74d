"""Bringing a database to the schema: by any driver, at once from many sides, or not at all."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, Table, create_engine, event, inspect, make_url, text
from sqlalchemy.engine import ExceptionContext

from mutirao.errors import (
    ConfigurationError,
    SchemaMissing,
    SchemaTooNew,
    SchemaTooOld,
    StoreError,
)
from mutirao.sql import migrations
from mutirao.sql.schema import tables, version

TABLES = {"mutirao_version", *tables.metadata.tables}
DRIVERS = {
    "sqlite": ["pysqlite", "aiosqlite"],
    "postgresql": ["psycopg", "psycopg2", "asyncpg"],
    "mysql": ["pymysql", "aiomysql", "mysqldb"],
}
# What a database has beside what SQLAlchemy Core is told of.
MORE_TABLES = {"mysql": {"mutirao_lock"}}
MORE_COLUMNS = {"mysql": {("mutirao_job", "unplaced"), ("mutirao_live", "turn")}}


@pytest.fixture
def connection(database_url: str) -> Iterator[Connection]:
    """A connection to an empty database; each statement is committed at once."""
    engine = create_engine(database_url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        yield connection
    engine.dispose()


def names(connection: Connection) -> set[str]:
    """Return the names of all tables there are now, but for those of one kind of database."""
    more = MORE_TABLES.get(connection.dialect.name, set())
    return set(inspect(connection).get_table_names()) - more


def test_every_driver_migrates(database_url: str, connection: Connection) -> None:
    """Any of the drivers finds the way to the newest schema; whoever comes later finds it done."""
    url = make_url(database_url)
    for driver in DRIVERS[url.get_backend_name()]:
        migrations.upgrade(url.set(drivername=f"{url.get_backend_name()}+{driver}"))
        assert names(connection) == TABLES
        version.check(connection)


def test_asyncpg_migrates_an_empty_database(postgresql_url: str) -> None:
    """A driver that is only asynchronous is enough to begin with."""
    migrations.upgrade(make_url(postgresql_url).set(drivername="postgresql+asyncpg"))
    engine = create_engine(postgresql_url)
    with engine.connect() as connection:
        version.check(connection)
    engine.dispose()


@pytest.mark.repeats("sqlite", "mysql", decided="tests/integration/migrations/test_upgrade.py")
def test_many_processes_migrate_at_once(database_url: str, connection: Connection) -> None:
    """One of them works while the others wait; none fails."""
    program = "import sys; from mutirao.sql import migrations; migrations.upgrade(sys.argv[1])"
    running = [subprocess.Popen([sys.executable, "-c", program, database_url]) for _ in range(3)]
    assert [process.wait(100) for process in running] == [0] * 3
    assert names(connection) == TABLES
    found = connection.execute(text("SELECT version_num FROM mutirao_version")).scalars().all()
    assert found == [version.head()]


def test_an_application_keeps_its_own_alembic(database_url: str, connection: Connection) -> None:
    """The version of the application's own migrations is neither read nor written."""
    connection.execute(text("CREATE TABLE alembic_version (version_num varchar(32) NOT NULL)"))
    connection.execute(text("INSERT INTO alembic_version VALUES ('theirs')"))
    migrations.upgrade(database_url)
    assert connection.execute(text("SELECT version_num FROM alembic_version")).scalars().all() == [
        "theirs"
    ]


def test_a_migration_that_fails(database_url: str, connection: Connection) -> None:
    """All of it or none, where DDL is part of a transaction; a later try succeeds anyway."""
    connection.execute(text("CREATE TABLE mutirao_attempt (in_the_way integer)"))
    with pytest.raises(StoreError, match=r"mutirao_attempt|error_type"):
        migrations.upgrade(database_url)
    assert names(connection) == {"mutirao_attempt"} or connection.dialect.name == "mysql"
    connection.execute(text("DROP TABLE mutirao_attempt"))
    migrations.upgrade(database_url)
    assert names(connection) == TABLES


def test_sqlite_is_put_in_wal_mode(sqlite_url: str) -> None:
    """Readers do not keep a writer waiting, then; the file remembers it."""
    migrations.upgrade(sqlite_url)
    engine = create_engine(sqlite_url)
    with engine.connect() as connection:
        assert connection.execute(text("PRAGMA journal_mode")).scalar_one() == "wal"
    engine.dispose()


def test_sqlite_is_put_in_wal_mode_when_another_one_is_done(sqlite_url: str) -> None:
    """SQLite refuses at once to change the mode beside a writer, whatever its timeout."""
    path = make_url(sqlite_url).database
    refused: list[BaseException] = []
    with closing(sqlite3.connect(str(path), isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")

        def _give_way(context: ExceptionContext) -> None:
            refused.append(context.original_exception)
            other.execute("COMMIT")

        event.listen(Engine, "handle_error", _give_way)
        try:
            migrations.upgrade(sqlite_url)
        finally:
            event.remove(Engine, "handle_error", _give_way)
        assert other.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert [str(error) for error in refused] == ["database is locked"]


def test_the_revisions_that_are_known() -> None:
    """Are those that Alembic finds, in its order."""
    scripts = ScriptDirectory(str(Path(migrations.__file__).parent))
    assert tuple(reversed([s.revision for s in scripts.walk_revisions()])) == version.REVISIONS


def test_tables_that_a_search_path_hides(migrated_postgresql_url: str) -> None:
    """The message says where it has looked, and where such tables are."""
    engine = create_engine(migrated_postgresql_url)
    with engine.begin() as conn:
        conn.execute(text("CREATE SCHEMA empty"))
        conn.execute(text("SET LOCAL search_path TO empty, pg_catalog"))
        said = r"search_path \(empty, pg_catalog\).*There are such in schema public: set the"
        with pytest.raises(SchemaMissing, match=said):
            version.check(conn)
    engine.dispose()


def test_check_tells_apart_what_is_wrong(
    database_url: str, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Missing, older and newer tables are three errors; each says which command helps."""
    with pytest.raises(SchemaMissing, match=r"has no Mutirão tables.*`mutirao migrate module:app`"):
        version.check(connection)
    assert version.current(connection) is None

    migrations.upgrade(database_url)
    version.check(connection)

    with monkeypatch.context() as newer_package:
        newer_package.setattr(version, "REVISIONS", (*version.REVISIONS, "0999"))
        with pytest.raises(SchemaTooOld, match=r"needs 0999.*`mutirao migrate module:app`"):
            version.check(connection)

    connection.execute(text("UPDATE mutirao_version SET version_num = '0999'"))
    with pytest.raises(SchemaTooNew, match=r"0999.*`pip install --upgrade mutirao`"):
        version.check(connection)
    with pytest.raises(SchemaTooNew, match="0999"):
        migrations.upgrade(database_url)


def test_core_knows_the_columns(migrated_url: str) -> None:
    """What SQLAlchemy Core is told of a table is what the migrations made."""
    engine = create_engine(migrated_url)
    values = {table.name: _columns(table) for table in tables.metadata.sorted_tables}
    with engine.connect() as connection:
        inspector = inspect(connection)
        made = {
            name: [
                (each["name"], each["nullable"])
                for each in inspector.get_columns(name)
                if (name, each["name"]) not in MORE_COLUMNS.get(engine.dialect.name, set())
            ]
            for name in values
        }
    engine.dispose()
    for table in tables.metadata.sorted_tables:
        # SQLite tells an integer primary key, which it never leaves empty, to be nullable.
        keys = table.primary_key.columns.keys()
        made[table.name] = [(name, empty and name not in keys) for name, empty in made[table.name]]
    assert made == values


def _columns(table: Table) -> list[tuple[str, bool]]:
    """Return the names of the columns of a table, and whether they may be empty."""
    return [(column.name, bool(column.nullable)) for column in table.columns]


def test_the_printed_schema_is_the_migrated_one_on_sqlite(tmp_path: Path) -> None:
    """The script makes, letter by letter, what migrating makes; and WAL mode."""
    printed, migrated = tmp_path / "printed.db", tmp_path / "migrated.db"
    migrations.upgrade(f"sqlite:///{migrated}")
    with closing(sqlite3.connect(printed)) as one, closing(sqlite3.connect(migrated)) as other:
        one.executescript(migrations.ddl("sqlite"))
        for catalog in (
            "SELECT type, name, replace(sql, char(9), '    ') FROM sqlite_master ORDER BY name",
            "SELECT version_num FROM mutirao_version",
            "PRAGMA journal_mode",
        ):
            assert one.execute(catalog).fetchall() == other.execute(catalog).fetchall()


def test_the_printed_schema_is_the_migrated_one_on_postgresql(
    postgresql_url: str, migrated_postgresql_url: str
) -> None:
    """The script makes the columns, indexes, constraints, views and functions of migrating."""
    with (
        psycopg.connect(_libpq(postgresql_url)) as one,
        psycopg.connect(_libpq(migrated_postgresql_url)) as other,
    ):
        one.execute(migrations.ddl("postgresql").encode())
        for catalog in (
            "SELECT table_name, column_name, data_type, is_nullable, column_default"
            " FROM information_schema.columns WHERE table_schema = 'public' ORDER BY 1, 2",
            "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY 1",
            "SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint"
            " WHERE connamespace = 'public'::regnamespace ORDER BY 1",
            "SELECT viewname, definition FROM pg_views WHERE schemaname = 'public' ORDER BY 1",
            "SELECT proname, prosrc FROM pg_proc WHERE proname LIKE 'mutirao%' ORDER BY 1",
            "SELECT version_num FROM mutirao_version",
        ):
            found = one.execute(catalog.encode()).fetchall()
            assert found == other.execute(catalog.encode()).fetchall()
            assert found


def test_the_schema_of_an_unknown_dialect() -> None:
    """The error names the dialects that are known."""
    with pytest.raises(ConfigurationError, match="'oracle'; it knows postgresql, sqlite"):
        migrations.ddl("oracle")


def _libpq(url: str) -> str:
    return url.replace("+psycopg", "")
