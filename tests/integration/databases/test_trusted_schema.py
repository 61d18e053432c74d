"""`PRAGMA trusted_schema = OFF`, as SQLite advises: Mutirão's tables are in nobody's way."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest
from sqlalchemy import create_engine, event, make_url, text

from mutirao import Job, Mutirao
from mutirao.sql import migrations
from tests.integration.worker.kit import ended, outcomes, working

OFF = "PRAGMA trusted_schema = OFF"


@pytest.fixture
def distrusting(migrated_sqlite_url: str) -> Iterator[sqlite3.Connection]:
    """A connection of another program, which trusts no schema."""
    path = str(make_url(migrated_sqlite_url).database)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(OFF)
        yield connection


def test_everything_can_be_read(distrusting: sqlite3.Connection) -> None:
    """Each table and each view, and the application's own tables first of all."""
    distrusting.execute("CREATE TABLE theirs (id integer PRIMARY KEY)")
    distrusting.execute("SELECT * FROM theirs")
    names = distrusting.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")
    for (name,) in names.fetchall():
        distrusting.execute(f"SELECT * FROM {name}").fetchall()  # noqa: S608 (names of ours)


def test_jobs_are_enqueued_changed_and_deleted(distrusting: sqlite3.Connection) -> None:
    """The triggers run, also that which finds whose turn a job takes."""
    distrusting.execute("INSERT INTO mutirao_fairness (task, by) VALUES ('t', 'who')")
    distrusting.execute(
        """INSERT INTO mutirao_job (task, args, key) VALUES ('t', '{"who": "a"}', 'k')"""
    )
    distrusting.execute("UPDATE mutirao_job SET args = '{}'")
    assert distrusting.execute("SELECT fairness FROM mutirao_live").fetchall() == [("=a",)]
    distrusting.execute(
        "INSERT INTO mutirao_attempt VALUES (1, 1, 1, 1, 'dead', 1, 1, '', '', NULL)"
    )
    distrusting.execute("DELETE FROM mutirao_attempt")
    distrusting.execute("DELETE FROM mutirao_job")


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("args", "nonsense"),
        ("args", "[]"),
        ("args", ""),
        ("args", b"{}"),
        ("tags", "{}"),
        ("tags", "nonsense"),
        ("metadata", "1"),
        ("metadata", '{"a": '),
    ],
)
def test_what_is_no_json_is_refused(
    distrusting: sqlite3.Connection, column: str, value: object
) -> None:
    """When it is written and when it is changed."""
    insert = f"INSERT INTO mutirao_job (task, {column}) VALUES ('t', ?)"  # noqa: S608
    with pytest.raises(sqlite3.Error, match=rf"malformed JSON|{column}"):
        distrusting.execute(insert, (value,))
    distrusting.execute("INSERT INTO mutirao_job (task) VALUES ('t')")
    with pytest.raises(sqlite3.Error, match=rf"malformed JSON|{column}"):
        distrusting.execute(f"UPDATE mutirao_job SET {column} = ?", (value,))  # noqa: S608


async def test_a_worker_that_trusts_no_schema(migrated_sqlite_url: str) -> None:
    """It does jobs of all kinds, through connections of the application's."""
    engine = create_engine(migrated_sqlite_url)
    event.listen(engine, "connect", lambda connection, _: connection.execute(OFF))
    app = Mutirao(engine=engine)
    trusts: list[int] = []

    @app.task(fair_by="who")
    async def work(job: Job, who: str) -> None:
        async with job.transaction() as session:
            trusts.append((await session.execute(text("PRAGMA trusted_schema"))).scalar_one())

    async with working(app):
        jobs = [await work.using(key=who, tags=["a"]).aenqueue(who) for who in "abc"]
        for each in jobs:
            assert outcomes(await ended(app, each.id)) == ["succeeded"]
    assert trusts == [0, 0, 0]
    await app.aclose()
    engine.dispose()


def test_migrating_where_no_schema_is_trusted(sqlite_url: str) -> None:
    """Its own connection trusts that of the first revision, which had functions of JSON."""
    engine = create_engine(sqlite_url)
    event.listen(engine, "connect", lambda connection, _: connection.execute(OFF))
    migrations.upgrade(engine)
    engine.dispose()
