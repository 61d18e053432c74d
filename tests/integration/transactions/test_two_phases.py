"""Transactions that are prepared first and committed later: what they enqueue, and who waits."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import psycopg
import pytest

from mutirao import JobState, Mutirao
from mutirao.model.jobs.job import Job
from tests.integration.transactions.kit import Others
from tests.integration.worker.kit import ended, never_polling, working
from tests.support.waiting import soon, until

PREPARE = "PREPARE TRANSACTION 'order 7'"


@pytest.fixture(autouse=True)
def prepared(others: Others) -> Iterator[None]:
    """What is still prepared after a test is rolled back."""
    yield
    for (name,) in others.rows("SELECT gid FROM pg_prepared_xacts"):
        others.rows(f"ROLLBACK PREPARED '{name}'")


async def test_while_somebody_listens(pg_app: Mutirao, others: Others) -> None:
    """PostgreSQL prepares no transaction that notifies."""

    @pg_app.task
    async def step() -> None: ...

    async with never_polling(pg_app):
        await until(lambda: others.rows("SELECT id FROM mutirao_worker WHERE listening"))
        with others.session() as caller:
            step.using(conn=caller).enqueue()
            with pytest.raises(psycopg.errors.FeatureNotSupported, match="NOTIFY"):
                caller.execute(PREPARE)


@pytest.mark.parametrize("keyed", [False, True])
async def test_without_notifying(pg_app: Mutirao, others: Others, keyed: bool) -> None:
    """A setting of the caller's session; a worker finds the job when it polls."""

    @pg_app.task
    async def step() -> None: ...

    old = step.using(key="k", delay=1_000).enqueue() if keyed else None
    async with working(pg_app, poll=0.1):
        await until(lambda: others.rows("SELECT id FROM mutirao_worker WHERE listening"))
        with others.session() as caller:
            caller.execute("SET mutirao.notify TO off")
            call = step.using(conn=caller)
            if keyed:
                call = step.using(conn=caller, key="k", on_conflict="replace")
            new = call.enqueue()
            caller.execute(PREPARE)
        others.rows("COMMIT PREPARED 'order 7'")
        assert (await ended(pg_app, new.id)).state is JobState.SUCCEEDED
    if old is not None:
        assert (await pg_app.ajob(old.id)).state is JobState.CANCELLED


async def test_a_prepared_rerun(pg_app: Mutirao, others: Others) -> None:
    """Until it is committed, the job before it is not settled; all others are."""
    begun: set[int] = set()
    go_on = asyncio.Event()

    @pg_app.task
    async def step(job: Job) -> None:
        begun.add(job.id)
        await go_on.wait()

    ids = await pg_app.aenqueue_many([step.using(key=f"k{n}").job() for n in range(20)])
    async with working(pg_app, poll=0.2, concurrency=20):
        await until(lambda: len(begun) == 20)
        with others.session() as caller:
            caller.execute("SET mutirao.notify TO off")
            again = step.using(conn=caller, key="k3", on_conflict="rerun").enqueue()
            caller.execute(PREPARE)
        go_on.set()
        for id in [*ids[:3], *ids[4:]]:
            assert (await ended(pg_app, id)).state is JobState.SUCCEEDED
        assert (await pg_app.ajob(ids[3])).state is JobState.RUNNING
        others.rows("COMMIT PREPARED 'order 7'")
        assert (await ended(pg_app, again.id)).state is JobState.SUCCEEDED
        assert (await pg_app.ajob(ids[3])).state is JobState.SUCCEEDED


async def test_an_open_transaction_of_a_fair_task(pg_app: Mutirao, others: Others) -> None:
    """The task's first job, not committed yet: workers begin, and others enqueue."""

    @pg_app.task(fair_by="tenant")
    async def step(tenant: int) -> None: ...

    with others.session() as caller:
        first = step.using(conn=caller).enqueue(1)
        more = step.using(conn=caller, key="k").enqueue(1)
        theirs = await soon(pg_app.aenqueue_many([step.job(n) for n in (1, 2)]))
        one = await soon(step.aenqueue(2))
        async with working(pg_app, poll=0.2):
            for id in (*theirs, one.id):
                assert (await ended(pg_app, id)).state is JobState.SUCCEEDED
            caller.commit()
            for handle in (first, more):
                assert (await ended(pg_app, handle.id)).state is JobState.SUCCEEDED
