"""Sessions that are SERIALIZABLE by default, by order of a role, a database or the server.

Our own transactions and statements are READ COMMITTED all the same.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from sqlalchemy import make_url, text

from mutirao import JobState, Mutirao
from mutirao.errors import StoreBusy
from mutirao.model.jobs.job import Job
from mutirao.sql.store.jobs import SqlStore
from mutirao_conformance.kit import NOW, finish, join, lane, put, take
from mutirao_conformance.limits import limited, of
from tests.integration.transactions.kit import Others
from tests.integration.worker.kit import ended, working
from tests.support.waiting import soon

pytestmark = pytest.mark.repeats(
    "asyncpg", "psycopg2", decided="tests/integration/transactions/test_defaults.py"
)

DRIVERS = ["psycopg", "asyncpg", "psycopg2"]
SHOW = text("SHOW transaction_isolation")
LEVELS = ["repeatable read", "serializable"]


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("level", LEVELS)
async def test_a_rerun_that_is_being_committed(
    pg_url: str, others: Others, driver: str, level: str
) -> None:
    """Whoever settles the job before it waits for that commit, and sees what it wrote."""
    app = Mutirao(make_url(pg_url).set(drivername=f"postgresql+{driver}"))
    begun, go_on = asyncio.Event(), asyncio.Event()

    @app.task(timeout=None)
    async def once(job: Job) -> None:
        begun.set()
        await go_on.wait()

    with others.by_default("default_transaction_isolation", level):
        [first] = await app.aenqueue_many([once.using(key="k", on_conflict="keep").job()])
        async with working(app, poll=0.2):
            await soon(begun.wait())
            with others.session() as caller:
                again = once.using(key="k", on_conflict="rerun", conn=caller).enqueue()
                caller.execute("SET CONSTRAINTS ALL IMMEDIATE")  # as at the commit, which is held
                go_on.set()
                await others.until_someone_waits()
                caller.commit()
            assert (await ended(app, first)).state is JobState.SUCCEEDED
            assert (await ended(app, again.id)).state is JobState.SUCCEEDED
    await app.aclose()


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("on_conflict", ["keep", "replace", "rerun"])
async def test_callers_with_few_keys(
    pg_url: str, others: Others, driver: str, level: str, on_conflict: Any
) -> None:
    """Each call is a transaction of our own: none is told of others that wrote meanwhile."""
    app = Mutirao(make_url(pg_url).set(drivername=f"postgresql+{driver}"))

    @app.task
    async def once(number: int) -> None: ...

    async def enqueue(number: int) -> None:
        key = f"k{number % 2}"
        call = once.using(key=key, on_conflict=on_conflict)
        if driver == "asyncpg":
            await call.aenqueue(number)
        else:
            await asyncio.to_thread(call.enqueue, number)

    async def many(first: int) -> None:
        for number in range(first, first + 30):
            await enqueue(number)

    with others.by_default("default_transaction_isolation", level):
        await asyncio.gather(*(many(1_000 * each) for each in range(4)))
    await app.aclose()


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("whose", ["database", "server"])
async def test_a_default_that_changes(pg_url: str, others: Others, driver: str, whose: str) -> None:
    """New connections notice it; those that were open do when a call fails by it, once."""
    app = Mutirao(make_url(pg_url).set(drivername=f"postgresql+{driver}"))
    failed = 0

    @app.task
    async def once(number: int) -> None: ...

    async def enqueue(number: int) -> None:
        call = once.using(key="k", on_conflict="rerun")
        if driver == "asyncpg":
            await call.aenqueue(number)
        else:
            await asyncio.to_thread(call.enqueue, number)

    async def many() -> None:
        nonlocal failed
        for number in range(30):
            try:
                await enqueue(number)
            except StoreBusy:
                failed += 1

    await asyncio.gather(*(many() for _ in range(4)))
    assert failed == 0
    by_default = others.by_default if whose == "database" else others.by_default_of_server
    with by_default("default_transaction_isolation", "serializable"):
        await asyncio.gather(*(many() for _ in range(8)))
        assert failed <= (0 if whose == "database" else 8)
        failed = 0
        await asyncio.gather(*(many() for _ in range(8)))
        assert failed == 0
    await app.aclose()


@pytest.mark.parametrize("driver", DRIVERS)
async def test_transactions_of_handlers(pg_url: str, others: Others, driver: str) -> None:
    """They are READ COMMITTED, too."""
    app = Mutirao(make_url(pg_url).set(drivername=f"postgresql+{driver}"))
    received: list[str] = []

    @app.task(max_attempts=1)
    def step(job: Job) -> None:
        with job.transaction() as session:
            received.append(session.execute(SHOW).scalar_one())

    @app.task(max_attempts=1)
    async def astep(job: Job) -> None:
        async with job.transaction() as session:
            received.append((await session.execute(SHOW)).scalar_one())

    task = astep if driver == "asyncpg" else step
    with others.by_default("default_transaction_isolation", "serializable"):
        [id] = await app.aenqueue_many([task.job()])
        async with working(app, poll=0.2):
            assert (await ended(app, id)).state is JobState.SUCCEEDED
    assert received == ["read committed"]
    await app.aclose()


@pytest.mark.parametrize("driver", DRIVERS)
async def test_a_claim_that_is_undone(pg_url: str, others: Others, driver: str) -> None:
    """Under limits, its statements are one transaction: a lock that is not to be had is told.

    Where each stands alone, what the first one claimed is held, and is returned.
    """
    store = SqlStore(make_url(pg_url).set(drivername=f"postgresql+{driver}"))
    worker = await join(store)
    await limited(store, 1, by="tenant")
    await put(store, of("b"))
    await finish(store, worker, await take(store, worker))
    await put(store, of("a"), of("a"), of("b"))
    with others.session() as other:
        other.execute("SELECT FROM mutirao_counter WHERE key = 'b' FOR UPDATE")
        alone = await store.claim(worker, [lane()], 2, now=NOW)
        assert [(claim.id, claim.run) for claim in alone] == await store.held(worker) != []
        await store.release(await store.held(worker))
        await store.close()
        with others.by_default("default_transaction_isolation", "repeatable read"):
            with pytest.raises(StoreBusy, match="lock"):
                await store.claim(worker, [lane()], 2, now=NOW)
            assert await store.held(worker) == []
            await store.close()
