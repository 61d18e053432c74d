"""`drain(conn=…)`: all of it on a connection of the caller's, in the transaction open there."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import psycopg2
import pytest
from psycopg.rows import dict_row
from sqlalchemy import create_engine, make_url, text
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import Session

from mutirao import PREVIOUS, Job, Mutirao, OutcomeKind, Retry, chain
from mutirao.errors import UnsupportedConnection, WrongState
from mutirao.testing import capture, drain

OK, RETRIED, DEAD = OutcomeKind.SUCCEEDED, OutcomeKind.RETRIED, OutcomeKind.DEAD
Say = Callable[[str], list[Any]]


def plain(url: str) -> str:
    """Return a URL of SQLAlchemy's for drivers that have their own."""
    return make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)


@contextmanager
def sqlalchemy(url: str) -> Iterator[tuple[Any, Say]]:
    """A connection of SQLAlchemy's."""
    engine = create_engine(url)
    with engine.connect() as conn:
        yield conn, lambda sql: _rows(conn.execute(text(sql)))
        conn.rollback()
    engine.dispose()


@contextmanager
def session(url: str) -> Iterator[tuple[Any, Say]]:
    """A session of SQLAlchemy's."""
    engine = create_engine(url)
    with Session(engine) as conn:
        yield conn, lambda sql: _rows(conn.execute(text(sql)))
        conn.rollback()
    engine.dispose()


@contextmanager
def own_psycopg(url: str) -> Iterator[tuple[Any, Say]]:
    """One of psycopg's, with rows and JSON as nobody expects them."""
    with psycopg.connect(plain(url), row_factory=dict_row) as conn:
        psycopg.types.json.set_json_loads(lambda found: found, conn)
        yield conn, lambda sql: [tuple(row.values()) for row in _rows(conn.execute(sql))]
        conn.rollback()


@contextmanager
def own_psycopg2(url: str) -> Iterator[tuple[Any, Say]]:
    """One of psycopg2's."""
    conn = psycopg2.connect(plain(url))
    cursor = conn.cursor()

    def say(sql: str) -> list[Any]:
        cursor.execute(sql)
        return list(cursor.fetchall()) if cursor.description else []

    yield conn, say
    conn.rollback()
    conn.close()


@contextmanager
def own_sqlite3(url: str) -> Iterator[tuple[Any, Say]]:
    """One of sqlite3's, which begins before it writes."""
    conn = sqlite3.connect(str(make_url(url).database))
    conn.row_factory = sqlite3.Row
    yield conn, lambda sql: [tuple(row) for row in conn.execute(sql)]
    conn.rollback()
    conn.close()


def _rows(result: Any) -> list[Any]:
    returns = getattr(result, "returns_rows", None)
    if returns is None:
        returns = result.description is not None
    return list(result) if returns else []


KINDS = [
    pytest.param(("sqlite", sqlalchemy), id="sqlite-sqlalchemy"),
    pytest.param(("sqlite", session), id="sqlite-session"),
    pytest.param(("sqlite", own_sqlite3), id="sqlite3"),
    pytest.param(("postgresql", sqlalchemy), id="postgresql-sqlalchemy"),
    pytest.param(("postgresql", session), id="postgresql-session"),
    pytest.param(("postgresql", own_psycopg), id="psycopg"),
    pytest.param(("postgresql", own_psycopg2), id="psycopg2"),
]


class Lent:
    """An application, a connection to its database, and what can be said on it."""

    def __init__(self, url: str, conn: Any, say: Say) -> None:
        self.app, self.conn, self.say = Mutirao(url), conn, say
        self.done: list[Any] = []

    def kept(self, job: int) -> Any:
        """Return what this connection sees of a job: its state and its attempts' outcomes."""
        attempts = f"SELECT outcome FROM mutirao_attempts WHERE job = {job} ORDER BY run"  # noqa: S608
        [(state,)] = self.say(f"SELECT state FROM mutirao_jobs WHERE id = {job}")  # noqa: S608
        outcomes = self.say(attempts)
        return state, [outcome for (outcome,) in outcomes]


@pytest.fixture(params=KINDS)
def lent(request: pytest.FixtureRequest) -> Iterator[Lent]:
    """A connection of each kind, to a database with a table `notes`; it is rolled back."""
    kind, opened = request.param
    url = request.getfixturevalue(f"migrated_{kind}_url")
    engine = create_engine(url)
    with engine.begin() as conn:
        conn.execute(text("CREATE TABLE notes (text text UNIQUE)"))
    with opened(url) as (conn, say):
        found = Lent(url, conn, say)
        yield found
        conn.rollback()
        with engine.begin() as other:  # nothing has been committed, whatever the test did
            for table in ("mutirao_job", "mutirao_attempt", "mutirao_worker", "notes"):
                assert other.scalar(text(f"SELECT count(*) FROM {table}")) == 0  # noqa: S608
    engine.dispose()
    found.app.close()


def test_it_runs_in_the_transaction(lent: Lent) -> None:
    """What is due, and what that enqueues, with a `conn` and without; all can be looked at."""

    @lent.app.task
    def last(text: str) -> None:
        lent.say(f"INSERT INTO notes VALUES ('{text}')")  # noqa: S608

    @lent.app.task
    async def middle() -> None:
        await last.aenqueue("of a coroutine")
        await asyncio.sleep(0)

    @lent.app.task
    def first(job: Job) -> None:
        middle.enqueue()
        last.using(conn=lent.conn).enqueue("of a function")
        job.progress(1, of=2)

    id = first.using(conn=lent.conn).enqueue().id
    assert drain(lent.app, conn=lent.conn) == {OK: 4}
    notes = sorted(lent.say("SELECT text FROM notes"))
    assert [text for (text,) in notes] == ["of a coroutine", "of a function"]
    assert lent.kept(id) == ("succeeded", ["succeeded"])


def test_in_the_caller_s_thread(lent: Lent) -> None:
    """Plain functions, of child processes as well, find no event loop beside them."""

    @lent.app.task
    def note() -> None:
        with pytest.raises(RuntimeError, match="no running event loop"):
            asyncio.get_running_loop()
        asyncio.run(asyncio.sleep(0))
        lent.done.append(threading.current_thread())

    @lent.app.task(process=True)
    def apart() -> None:
        note.function()

    @lent.app.around_attempt
    async def around(job: Job) -> Any:
        await asyncio.sleep(0)
        yield

    note.using(conn=lent.conn).enqueue()
    apart.using(conn=lent.conn).enqueue()
    assert drain(lent.app, conn=lent.conn) == {OK: 2}
    assert lent.done == [threading.current_thread()] * 2


def test_a_transaction_of_a_job(lent: Lent) -> None:
    """It is a savepoint: whole or not at all, in functions and in coroutines."""

    @lent.app.task(retry=Retry.never())
    def write(job: Job, note: str) -> None:
        with job.transaction() as session:
            session.execute(text("INSERT INTO notes VALUES (:note)"), {"note": note})
            done.using(conn=session).enqueue()
            if note == "fail":
                raise ValueError(note)

    @lent.app.task(retry=Retry.never())
    async def awrite(job: Job, note: str) -> None:
        async with job.transaction() as session:
            await session.execute(text("INSERT INTO notes VALUES (:note)"), {"note": note})
            await done.using(conn=session).aenqueue()
            assert (await session.scalar(text("SELECT count(*) FROM notes"))) >= 1
            if note == "afail":
                raise ValueError(note)

    @lent.app.task
    def done() -> None:
        lent.done.append("done")

    write.using(conn=lent.conn).enqueue("fail")
    write.using(conn=lent.conn).enqueue("kept")
    awrite.using(conn=lent.conn).enqueue("afail")
    id = awrite.using(conn=lent.conn).enqueue("akept").id
    assert drain(lent.app, conn=lent.conn) == {OK: 4, DEAD: 2}
    assert sorted(lent.say("SELECT text FROM notes")) == [("akept",), ("kept",)]
    assert lent.kept(id) == ("succeeded", ["succeeded"])
    assert lent.done == ["done"] * 2


def test_a_commit_is_refused(lent: Lent) -> None:
    """Inside a job's transaction, as elsewhere."""

    @lent.app.task(retry=Retry.never())
    def commit(job: Job) -> None:
        with job.transaction() as session:
            session.connection().commit()

    id = commit.using(conn=lent.conn).enqueue().id
    assert drain(lent.app, conn=lent.conn) == {DEAD: 1}
    assert lent.kept(id) == ("dead", ["dead"])


def test_a_failed_statement(lent: Lent) -> None:
    """What it leaves of the transaction is mended, and the attempt has its outcome."""

    @lent.app.task(retry=Retry.fixed(2, interval=0))
    def twice(job: Job) -> None:
        if job.attempt == 1:
            lent.say("INSERT INTO nowhere VALUES (1)")
        lent.say("INSERT INTO notes VALUES ('now')")

    id = twice.using(conn=lent.conn).enqueue().id
    assert drain(lent.app, conn=lent.conn) == {RETRIED: 1, OK: 1}
    assert lent.kept(id) == ("succeeded", ["retried", "succeeded"])
    assert lent.say("SELECT text FROM notes") == [("now",)]


def test_keys_and_graphs(lent: Lent) -> None:
    """What waits for others is let in by their ends; results are kept and passed on."""
    app = lent.app

    @app.task
    def part(n: int) -> int:
        return n + 1

    @app.task(on_conflict="rerun")
    def serial(n: int) -> None:
        lent.done.append(n)
        if n < 1:
            serial.using(key="same").enqueue(n + 1)

    serial.using(conn=lent.conn, key="same").enqueue(0)
    app.enqueue_graph(chain(part.job(10), part.job(PREVIOUS)), conn=lent.conn)
    assert drain(app, conn=lent.conn) == {OK: 4}
    assert lent.done == [0, 1]
    results = [int(str(value)) for (value,) in lent.say("SELECT value FROM mutirao_result")]
    assert 11 in results


def test_an_error_leaves_it_usable(lent: Lent) -> None:
    """The limit of attempts: nothing is held, and a second drain goes on."""

    @lent.app.task
    def again(n: int) -> None:
        if n:
            again.enqueue(n - 1)

    again.using(conn=lent.conn).enqueue(4)
    with pytest.raises(WrongState, match="3 attempts"):
        drain(lent.app, conn=lent.conn, limit=3)
    assert drain(lent.app, conn=lent.conn) == {OK: 2}
    assert lent.say("SELECT count(*) FROM mutirao_live") == [(0,)]


def test_what_is_refused(lent: Lent) -> None:
    """Options that contradict each other; nothing was run."""

    @lent.app.task
    def note() -> None:
        lent.done.append("note")

    note.using(conn=lent.conn).enqueue()
    with pytest.raises(WrongState, match="one handler at a time"):
        drain(lent.app, conn=lent.conn, concurrency=2)
    with capture(lent.app), pytest.raises(WrongState, match="outside of capture"):
        drain(lent.app, conn=lent.conn)
    for nothing in (None, "file.db"):
        with pytest.raises(UnsupportedConnection, match="conn= "):
            drain(lent.app, conn=nothing)
    assert lent.done == []


def test_no_transaction(migrated_sqlite_url: str, migrated_postgresql_url: str) -> None:
    """A connection that commits each statement has none to run in."""
    lite = sqlite3.connect(str(make_url(migrated_sqlite_url).database), isolation_level=None)
    with pytest.raises(WrongState, match="commits each statement"):
        drain(Mutirao(migrated_sqlite_url), conn=lite)
    lite.close()
    post = psycopg.connect(plain(migrated_postgresql_url), autocommit=True)
    with pytest.raises(WrongState, match="commits each statement"):
        drain(Mutirao(migrated_postgresql_url), conn=post)
    with post.transaction():
        assert drain(Mutirao(migrated_postgresql_url), conn=post) == {}
    post.close()


async def test_others(migrated_sqlite_url: str, migrated_postgresql_url: str) -> None:
    """An asynchronous connection, and one to another kind of database."""
    engine = create_async_engine(migrated_sqlite_url.replace("sqlite:", "sqlite+aiosqlite:"))
    async with engine.connect() as conn:
        drained = asyncio.to_thread(drain, Mutirao(migrated_sqlite_url), conn=conn)
        with pytest.raises(UnsupportedConnection, match="a synchronous one"):
            await drained
    await engine.dispose()
    lite = sqlite3.connect(str(make_url(migrated_sqlite_url).database))
    with pytest.raises(UnsupportedConnection, match="a connection to SQLite, but"):
        await asyncio.to_thread(drain, Mutirao(migrated_postgresql_url), conn=lite)
    lite.close()


def test_a_schema(migrated_postgresql_url: str) -> None:
    """The set of jobs that the application has chosen."""
    app = Mutirao(migrated_postgresql_url, schema="jobs")
    app.migrate()
    done = []

    @app.task
    def note(job: Job) -> None:
        with job.transaction():
            done.append(job.id)

    with psycopg.connect(plain(migrated_postgresql_url)) as conn:
        id = note.using(conn=conn).enqueue().id
        assert drain(app, conn=conn) == {OK: 1}
        found = conn.execute("SELECT state FROM jobs.mutirao_jobs WHERE id = %s", (id,))
        assert (done, found.fetchall()) == ([id], [("succeeded",)])
        conn.rollback()
    app.close()
