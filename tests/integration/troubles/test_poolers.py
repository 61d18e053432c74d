"""A pooler in transaction mode that knows nothing of prepared statements: PgBouncer 1.18."""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterator

import psycopg
import pytest
from sqlalchemy import URL, create_engine, make_url, select, text
from sqlalchemy.ext.asyncio import create_async_engine

from mutirao import Job, Mutirao
from mutirao.model.jobs.job import OutcomeKind
from mutirao.sql.connections.engines import Engines
from mutirao.sql.connections.runner import Runner
from mutirao.sql.drivers.steps import Execute, Request, Rows
from mutirao.sql.schema.tables import attempt
from tests.integration.service.kit import Tables, all_finished
from tests.integration.troubles.conftest import DRIVERS
from tests.integration.worker.kit import working
from tests.support.log_records import ours
from tests.support.pgbouncer import pgbouncer

JOBS = 300
MOST_FORGOTTEN = 20  # connections that were opened before it was noticed meet it once each


@pytest.mark.parametrize("driver", DRIVERS)
async def test_jobs_run(
    pg_url: str, tables: Tables, driver: str, caplog: pytest.LogCaptureFixture
) -> None:
    """All of them: statements are not prepared any more, and the log says why."""
    # asyncpg prepares outside the transaction: in turn, it could not even begin.
    with pgbouncer(pg_url, in_turn=driver != "asyncpg") as front:
        url = front.set(drivername=f"postgresql+{driver}")
        if driver == "asyncpg":  # as SQLAlchemy's manual advises; it is not enough
            url = url.update_query_dict({"prepared_statement_cache_size": "0"})
        app = Mutirao(url)

        @app.task
        async def step() -> None: ...

        await app.aenqueue_many([step.job() for _ in range(JOBS)])
        async with working(app, poll=0.2, batch=10):
            await all_finished(tables, JOBS)
        await app.aclose()
    assert not [record for record in ours(caplog) if record.levelno > logging.WARNING]
    forgotten = caplog.text.count("a prepared statement is not as it was left")
    assert forgotten < MOST_FORGOTTEN
    noticed = forgotten > 0 or "statements are not prepared any more" in caplog.text
    assert noticed is (driver != "psycopg2")
    assert tables.outcomes() == {"succeeded"}


@pytest.mark.parametrize("kind", ["plain", "coroutine"])
async def test_transactions_of_an_engine_with_a_creator(
    pg_url: str, tables: Tables, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    """No parameters of ours reach its connections, and they prepare nothing all the same."""
    with pgbouncer(pg_url, in_turn=True) as front:
        app = through_a_creator(front, kind)

        @app.task
        def plain(job: Job) -> None:
            with job.transaction() as session:
                session.execute(text("SELECT 1"))

        @app.task
        async def coroutine(job: Job) -> None:
            async with job.transaction() as session:
                await session.execute(text("SELECT 1"))

        task = {"plain": plain, "coroutine": coroutine}[kind]
        await app.aenqueue_many([task.job() for _ in range(JOBS)])
        async with working(app, poll=0.2, batch=10, concurrency=4):
            await all_finished(tables, JOBS)
        await app.aclose()
    assert caplog.text.count("a prepared statement is not as it was left") < MOST_FORGOTTEN
    assert "statements are not prepared any more" in caplog.text
    released = select(attempt.c.job).where(attempt.c.outcome == str(OutcomeKind.RELEASED))
    assert len(tables.rows(released)) < MOST_FORGOTTEN  # which were not completed, for that reason


def through_a_creator(front: URL, kind: str) -> Mutirao:
    """An application whose engine opens psycopg's connections itself."""
    plain = front.set(drivername="postgresql").render_as_string(hide_password=False)
    bare = URL.create("postgresql+psycopg")
    if kind == "plain":
        return Mutirao(engine=create_engine(bare, creator=lambda: psycopg.connect(plain)))
    return Mutirao(
        engine=create_async_engine(
            bare, async_creator=lambda: psycopg.AsyncConnection.connect(plain)
        )
    )


@pytest.fixture(params=["psycopg", "asyncpg"])
def programs(request: pytest.FixtureRequest, pg_url: str) -> Iterator[list[Engines]]:
    """Two programs that share one of the server's connections."""
    with pgbouncer(pg_url, servers=1) as front:
        url = front.set(drivername=f"postgresql+{request.param}")
        yield [Engines(url), Engines(url)]


async def test_a_name_means_one_statement(
    programs: list[Engines], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither runs what the other has prepared, by itself or by SQLAlchemy."""
    for n in range(3):
        for program, sign in zip(programs, (1, -1), strict=True):
            monkeypatch.setattr("asyncpg.connection._uid", n)  # as in a process of its own
            answer = await Runner(program).alone(asking(f"SELECT %s::int + {sign}", n))
            assert answer == [(n + sign,)]
            async with program.asynchronous(alone=True).connect() as connection:
                for _ in range(7):  # psycopg prepares what is asked for more than five times
                    found = await connection.execute(text(f"SELECT {sign}"))
                    assert found.scalar_one() == sign
    for program in programs:
        await program.close()


def asking(sql: str, value: int) -> Generator[Request, Rows, Rows]:
    """One statement, as steps."""
    return (yield Execute(sql, (value,)))


@pytest.mark.parametrize("way", ["plain", "coroutine"])
async def test_sessions_that_ended_behind_the_pooler(pg_url: str, way: str) -> None:
    """Whoever is given such a one connects once more: nothing was done."""
    with pgbouncer(pg_url, servers=1) as front, psycopg.connect(plain(pg_url)) as server:
        server.autocommit = True
        app = Mutirao(front.set(drivername="postgresql+psycopg"))

        @app.task
        async def step() -> None: ...

        handle = step.enqueue()
        ended = 0
        for _ in range(60):
            ended += len(server.execute(ENDING).fetchall())
            if way == "plain":
                step.enqueue()
            else:
                await step.aenqueue()
            server.execute(ENDING)
            assert (await app.ajob(handle.id)).id == handle.id
        assert ended > 30
        assert len(await app.ajobs(limit=None)) == 61
        await app.aclose()


ENDING = """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()"""


def plain(url: str) -> str:
    """Return the URL as psycopg itself takes it."""
    return make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
