"""Rows and tables that somebody else has locked: what does not need them goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import pytest
from sqlalchemy import make_url

from mutirao import Job, Limit, Mutirao
from mutirao.errors import StoreBusy
from mutirao.model.limits.fairness import fair_lane
from mutirao.sql.store.jobs import SqlStore
from mutirao_conformance.kit import at, due, ids_of, join, lane, put, take
from tests.integration.service.kit import Tables, all_finished
from tests.integration.worker.kit import working
from tests.support.postgresql import PostgresServer
from tests.support.waiting import soon, until, wait_until

JOBS = 60


@pytest.fixture
def tables(pg_url: str) -> Tables:
    """The tables of the server."""
    return Tables(pg_url)


@contextmanager
def locked(postgres: PostgresServer, database: str, statement: str) -> Iterator[None]:
    """Hold what a statement locks."""
    with postgres.connect(database) as other, other.transaction(force_rollback=True):
        other.execute(statement)
        yield


@asynccontextmanager
async def locked_meanwhile(
    postgres: PostgresServer, database: str, statement: str
) -> AsyncIterator[None]:
    """Hold what a statement locks, once a worker of this event loop has let go of it."""
    lock = locked(postgres, database, statement)
    await asyncio.to_thread(lock.__enter__)
    try:
        yield
    finally:
        lock.__exit__(None, None, None)


async def test_one_row(
    pg_url: str, tables: Tables, postgres: PostgresServer, shared_database: str
) -> None:
    """With a time limit of the server's: the job whose row it is is settled when it can be."""
    url = make_url(pg_url).update_query_dict({"options": "-c statement_timeout=1000"})
    app = Mutirao(url)
    begun: dict[int, Job] = {}
    go_on = asyncio.Event()

    @app.task
    async def step(job: Job) -> None:
        begun[job.id] = job
        await go_on.wait()

    try:
        ids = await app.aenqueue_many([step.job() for _ in range(JOBS)])
        async with working(app, heartbeat=1, expiry=60, poll=0.2, concurrency=10, batch=20):
            await until(lambda: len(begun) == 10)
            row = f"SELECT FROM mutirao_live WHERE id = {ids[3]} FOR UPDATE"
            with locked(postgres, shared_database, row):
                go_on.set()
                await until(lambda: tables.number_finished() == JOBS - 1)
                assert tables.number_live() == 1
            await all_finished(tables, JOBS)
    finally:
        await app.aclose()
    assert tables.outcomes() == {"succeeded"}


async def test_a_table(
    pg_url: str, tables: Tables, postgres: PostgresServer, shared_database: str
) -> None:
    """What waited goes on when it is free; what came meanwhile starts without being told of."""
    app = Mutirao(pg_url)
    begun = asyncio.Event()

    @app.task
    async def first() -> None: ...

    @app.task
    async def later() -> None:
        begun.set()

    try:
        async with working(app, heartbeat=0.2, expiry=1, poll=0.2):
            await first.aenqueue()
            await all_finished(tables, 1)
            async with locked_meanwhile(postgres, shared_database, "LOCK TABLE mutirao_live"):
                enqueueing = asyncio.create_task(later.aenqueue())
                await asyncio.to_thread(_wait_for_waiting, postgres, shared_database, 2)
            await enqueueing
            await soon(begun.wait(), deadline=20.0)
            await all_finished(tables, 2)
    finally:
        await app.aclose()


@pytest.mark.parametrize("lanes", [("default",), ("default", fair_lane("default"))])
@pytest.mark.parametrize("table", ["worker", "live", "job", "limit", "counter", "slot"])
async def test_a_claim_does_not_wait_for_long(
    pg_url: str,
    postgres: PostgresServer,
    shared_database: str,
    table: str,
    lanes: tuple[str, ...],
) -> None:
    """Whoever gave it up would leave it on the server, to take jobs that nobody knows of."""
    store = SqlStore(pg_url)
    try:
        worker = await join(store)
        await store.limits.put(Limit(1).on(task="greet"))
        await put(store, due())
        asked = [lane(name) for name in lanes]
        with locked(postgres, shared_database, f"LOCK TABLE mutirao_{table}"):
            with pytest.raises(StoreBusy, match="a lock was not to be had in time"):
                await soon(store.claim(worker, asked, 1), deadline=20.0)
            assert _number_waiting(postgres, shared_database) == 0
        assert len(await store.claim(worker, asked, 1)) == 1
    finally:
        await store.close()


async def test_a_rescue_does_not_wait_for_a_counter(
    pg_url: str, postgres: PostgresServer, shared_database: str
) -> None:
    """A machine that was paused before a commit holds it; what it counts is mended later."""
    store = SqlStore(pg_url)
    try:
        gone, other = await join(store, expiry=1), await join(store)
        await store.limits.put(Limit(1).on(task="greet"))
        limited, plain = await put(store, due(), due("other"))
        assert len(await take(store, gone)) == 2
        with locked(postgres, shared_database, "SELECT FROM mutirao_counter FOR UPDATE"):
            rescued = await soon(store.rescue(orphans=False, now=at(2)), deadline=20.0)
            assert {id for id, _ in rescued} == {limited, plain}
        assert await store.rescue(orphans=False, now=at(2)) == []
        assert sorted(ids_of(await take(store, other, now=at(2)))) == [limited, plain]
    finally:
        await store.close()


def _number_waiting(postgres: PostgresServer, database: str) -> int:
    with postgres.connect(database) as other:
        [[number]] = other.execute("SELECT count(*) FROM pg_locks WHERE NOT granted").fetchall()
        return int(number)


def _wait_for_waiting(postgres: PostgresServer, database: str, number: int) -> None:
    """Wait until so many statements wait for a lock."""
    with postgres.connect(database) as other:
        query = "SELECT count(*) FROM pg_locks WHERE NOT granted"
        wait_until(lambda: other.execute(query).fetchone()[0] >= number)  # type: ignore[index]
