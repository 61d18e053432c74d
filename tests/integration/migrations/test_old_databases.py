"""Databases that earlier states of 0100 made, migrated: live jobs and an old worker go on."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, create_engine, inspect, text

from mutirao import Limit, Mutirao
from mutirao.sql import migrations
from mutirao.sql.schema import version
from tests.integration.migrations.old import STATES, migrate, old_worker, unpack
from tests.integration.worker.kit import ended, outcomes, working
from tests.support.waiting import until

JOBS = 30


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as it was."""
    return unpack(tmp_path_factory.mktemp("packages"))


@pytest.mark.repeats(
    "noon", "evening", decided="tests/integration/migrations/test_old_databases.py"
)
@pytest.mark.parametrize("state", STATES)
def test_it_becomes_what_a_new_one_is(
    packages: Path, state: str, database_url: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Tables, columns, constraints, indexes, views, triggers and functions are the same."""
    migrate(packages, state, database_url)
    assert revision_of(database_url) == "0100"
    migrations.upgrade(database_url)
    assert revision_of(database_url) == version.head()
    other = _another(database_url, tmp_path, request)
    migrations.upgrade(other)
    found, expected = shown(database_url), shown(other)
    differing = {each for each in found.keys() | expected if found.get(each) != expected.get(each)}
    assert not differing, {each: (found.get(each), expected.get(each)) for each in differing}


@pytest.mark.repeats("evening", decided="tests/integration/migrations/test_old_databases.py")
@pytest.mark.parametrize("state", ["evening", "last"])
async def test_live_jobs_and_the_old_worker_go_on(
    packages: Path, state: str, database_url: str
) -> None:
    """Jobs that ran and waited when it was migrated are done once each, and those of old code.

    Not a worker of noon: on PostgreSQL it cannot read claims that tell of tenants, as those of the
    release do. docs/database.md says that such workers end before.
    """
    migrate(packages, state, database_url)
    with old_worker(packages, state, database_url) as old:
        long = old.ask(what="enqueue", task="last_long", number=0)
        ids = [long, *(old.ask(what="enqueue", **_which(n)) for n in range(1, JOBS))]
        migrations.upgrade(database_url)
        ids += [old.ask(what="enqueue", **_which(n)) for n in range(JOBS, 2 * JOBS)]
        old.ask(what="end")
        expected = list(range(2 * JOBS))
        assert await until(lambda: _is(old.ask(what="done"), expected)) == expected
    app = Mutirao(database_url)
    for id in ids:
        assert outcomes(await ended(app, int(str(id)))) == ["succeeded"]
    await app.aclose()


@pytest.mark.repeats(
    "sqlite", "mysql", decided="tests/integration/migrations/test_old_databases.py"
)
@pytest.mark.parametrize("state", ["noon"])
async def test_a_new_worker_does_what_waited(packages: Path, state: str, database_url: str) -> None:
    """Jobs that old code enqueued, whose worker has ended, and new ones, with limits and keys."""
    migrate(packages, state, database_url)
    with old_worker(packages, state, database_url) as old:
        old.ask(what="stop")
        waiting = [old.ask(what="enqueue", task="later", number=n) for n in range(5)]
    migrations.upgrade(database_url)
    app = Mutirao(database_url)
    done: list[int] = []

    @app.task(limit=Limit(2))
    async def later(number: int) -> None:
        done.append(number)

    new = [await later.using(key=f"k{n}", tenant="t").aenqueue(n) for n in range(5, 10)]
    async with working(app):
        for id in [*map(int, map(str, waiting)), *(each.id for each in new)]:
            assert outcomes(await ended(app, id)) == ["succeeded"]
    assert sorted(done) == list(range(10))
    await app.aclose()


def _which(number: int) -> dict[str, object]:
    if number % 3 == 0:
        return {"task": "limited", "number": number}
    key = f"key {number}" if number % 3 == 1 else None
    return {"task": "note", "number": number, "key": key}


def _is(found: object, expected: list[int]) -> list[int] | None:
    assert isinstance(found, list)
    return expected if sorted(found) == expected else None


def revision_of(url: str) -> str | None:
    """Return the revision of a database."""
    engine = create_engine(url)
    with engine.connect() as connection:
        found = version.current(connection)
    engine.dispose()
    return None if found is None else found.revision


def _another(url: str, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """Return the URL of another empty database of the kind of `url`."""
    if url.startswith("sqlite"):
        return f"sqlite:///{tmp_path / 'another.db'}"
    server = request.getfixturevalue("postgres" if url.startswith("postgresql") else "mysql")
    name = server.create_database()
    request.addfinalizer(lambda: server.drop_database(name))
    return str(server.url(name))


def shown(url: str) -> dict[str, Any]:
    """Return the whole schema of a database, as it shows it."""
    engine = create_engine(url)
    with engine.connect() as connection:
        found = SHOWN[engine.dialect.name](connection)
    engine.dispose()
    return found


def _on_sqlite(connection: Connection) -> dict[str, Any]:
    rows = connection.exec_driver_sql("SELECT type, name, sql FROM sqlite_master")
    return {f"{type} {name}": sql and sql.replace("\t", "    ") for type, name, sql in rows}


def _on_mysql(connection: Connection) -> dict[str, Any]:
    names = inspect(connection).get_table_names() + inspect(connection).get_view_names()
    shown = {n: connection.exec_driver_sql(f"SHOW CREATE TABLE {n}").one()[1] for n in names}
    here = connection.engine.url.database
    return {
        name: re.sub(r" AUTO_INCREMENT=\d+", "", sql).replace(f"`{here}`.", "").splitlines()
        for name, sql in shown.items()
    }


def _on_postgresql(connection: Connection) -> dict[str, Any]:
    return {
        f"{name} {row}": True
        for name, query in CATALOGUE.items()
        for row in connection.execute(text(query.replace(":", r"\:")))
    }


CATALOGUE = {
    "columns": "SELECT table_name, column_name, data_type, is_nullable, column_default,"
    " collation_name FROM information_schema.columns WHERE table_schema = 'public'",
    "indexes": "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'",
    # An expression that was shown and read again has other brackets.
    "constraints": "SELECT conrelid::regclass::text, translate(pg_get_constraintdef(oid), '()', '')"
    " FROM pg_constraint"
    " WHERE connamespace = 'public'::regnamespace",
    "views": "SELECT viewname, definition FROM pg_views WHERE schemaname = 'public'",
    "functions": "SELECT oid::regprocedure::text, pg_get_functiondef(oid) FROM pg_proc"
    " WHERE pronamespace = 'public'::regnamespace",
    "triggers": "SELECT pg_get_triggerdef(oid), tgenabled FROM pg_trigger WHERE NOT tgisinternal",
    "sequences": "SELECT sequencename FROM pg_sequences WHERE schemaname = 'public'",
    "fingerprint": "SELECT fingerprint FROM mutirao_version",
}
SHOWN = {"sqlite": _on_sqlite, "mysql": _on_mysql, "postgresql": _on_postgresql}
