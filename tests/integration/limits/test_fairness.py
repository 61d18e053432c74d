"""Turns and workers: one among many comes soon, idle workers hear of it, each job is done once."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack

from sqlalchemy import create_engine, text

from mutirao import JobState, Mutirao, Retry
from mutirao.model.keys.uniqueness import OnConflict
from mutirao.sql.store.jobs import SqlStore
from mutirao_conformance.fairness import of, tenants
from mutirao_conformance.kit import join, put, take
from tests.integration.limits.test_race import worker
from tests.integration.limits.test_working import all_done
from tests.integration.worker.kit import ended, working
from tests.support.waiting import until

JOBS, TENANTS = 600, 7
HOLD_FIRST = """
SELECT id FROM mutirao_live WHERE id IN (
    SELECT min(id) FROM mutirao_job GROUP BY args ->> 'tenant'
) FOR UPDATE
"""
ONCE = """
SELECT count(*), count(DISTINCT job), sum(CASE WHEN outcome = 'succeeded' THEN 1 ELSE 0 END)
FROM mutirao_attempt
"""


async def test_heard_at_once(app: Mutirao) -> None:
    """An idle worker that does not poll hears of fair jobs, however they are enqueued."""

    @app.task(fair_by="tenant")
    async def call(tenant: str) -> None: ...

    async with working(app):
        await ended(app, (await call.aenqueue("a")).id)
        for id in await app.aenqueue_many(call.job(name) for name in "ab"):
            await ended(app, id)
        keyed = call.using(key="k", on_conflict=OnConflict.REPLACE)
        await ended(app, (await keyed.aenqueue("c")).id)
        await ended(app, (await call.using(delay=0.05).aenqueue("d")).id)


async def test_one_among_many(app: Mutirao) -> None:
    """Who has one job does not wait for everything that somebody else enqueued before."""
    order, begun = list[str](), asyncio.Event()

    @app.task(fair_by="tenant")
    async def call(tenant: str) -> None:
        order.append(tenant)
        begun.set()
        await asyncio.sleep(0.005)

    await app.aenqueue_many(call.job("many") for _ in range(1_500))
    async with working(app, concurrency=2):
        await begun.wait()
        handle = await call.aenqueue("one")
        before = len(order)
        await ended(app, handle.id)
        assert order.index("one") - before < 200
        await app.limits.apause(task="call")  # the rest is of no interest


async def test_tried_again(app: Mutirao) -> None:
    """A retried job comes when it is due, without a poll."""

    @app.task(fair_by="tenant", retry=Retry.fixed(3, interval=0.01))
    async def fail(tenant: str) -> None:
        raise ValueError("no")

    async with working(app):
        ids = await app.aenqueue_many(fail.job(name) for name in "aab")
        for id in ids:
            assert (await ended(app, id)).attempt == 3


async def test_in_plain_sql(app: Mutirao, url: str) -> None:
    """What others enqueue takes turns once a worker that knows the task has started."""

    @app.task(fair_by="tenant")
    async def call(tenant: str) -> None: ...

    async with working(app):
        engine = create_engine(url)
        asked = (
            "SELECT mutirao_enqueue('call', '{\"tenant\": \"a\"}')"
            if engine.dialect.name == "postgresql"
            else "INSERT INTO mutirao_job (task, args) VALUES ('call', '{\"tenant\": \"a\"}')"
        )
        with engine.begin() as conn:
            conn.exec_driver_sql(asked)
        await all_done(app, 1)
        with engine.begin() as conn:
            assert conn.execute(text('SELECT task, "by" FROM mutirao_fairness')).all() == [
                ("call", "tenant")
            ]
        engine.dispose()


async def test_two_processes(app: Mutirao, url: str) -> None:
    """Workers beside each other do each job once."""

    @app.task(fair_by="tenant")
    async def turn(tenant: str, n: int) -> None: ...

    with ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(worker(url))
        for some in range(0, JOBS, 60):
            await app.aenqueue_many(turn.job(f"t{n % TENANTS}", n) for n in range(some, some + 60))

        async def done() -> bool:
            counts = await app.acounts()
            return sum(c.jobs for c in counts if c.state == JobState.SUCCEEDED) >= JOBS

        await until(done)
    engine = create_engine(url)
    with engine.begin() as conn:
        assert tuple(conn.execute(text(ONCE)).one()) == (JOBS, JOBS, JOBS)
    engine.dispose()


async def test_the_first_of_a_tenant_is_held(migrated_postgresql_url: str) -> None:
    """Its next one takes the turn: nobody waits for what others are taking."""
    store = SqlStore(migrated_postgresql_url)
    await put(store, *(of(name) for name in "aabbcc"))
    engine = create_engine(migrated_postgresql_url)
    with engine.begin() as conn:
        held_ids = {row.id for row in conn.execute(text(HOLD_FIRST))}
        claims = await take(store, await join(store), 3)
    assert tenants(claims) == "abc"
    assert (len(held_ids), held_ids & {claim.id for claim in claims}) == (3, set())
    engine.dispose()
    await store.close()
