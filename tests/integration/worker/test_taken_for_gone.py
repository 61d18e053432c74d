"""A worker that others took for gone while it lived: it registers anew, and does nothing twice.

Before it hears of it, it may claim once more, and lose that as well.
"""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from sqlalchemy import URL, bindparam, create_engine, text

from mutirao import Job, JobState, Mutirao
from mutirao.errors import StaleRun
from mutirao.model.jobs.job import Claim
from mutirao.sql.store.jobs import SqlStore
from tests.integration.worker.kit import ended, outcomes, working
from tests.support.engine import dispatcher
from tests.support.waiting import soon, until

pytestmark = pytest.mark.repeats(
    "postgresql", decided="conformance/src/mutirao_conformance/losing.py"
)

BEATING = {"heartbeat": 0.1, "expiry": 60}


async def take_for_gone(app: Mutirao) -> set[int]:
    """Do to all workers what happens to those whose heart has stopped; return their ids."""
    gone = {worker.id for worker in await app.store.workers()}

    async def taken() -> bool:
        """One that beats between the two steps is not gone: hence again."""
        await asyncio.to_thread(_let_expire, app.url, gone)
        await app.store.rescue()
        return gone.isdisjoint({worker.id for worker in await app.store.workers()})

    await until(taken)
    return gone


def _let_expire(url: str | URL, workers: set[int]) -> None:
    engine = create_engine(url)
    past = "0" if engine.dialect.name == "sqlite" else "now() - interval '1 hour'"
    expire = text(f"UPDATE mutirao_worker SET expires_at = {past} WHERE id IN :ids")  # noqa: S608
    with engine.begin() as connection:
        connection.execute(expire.bindparams(bindparam("ids", [*workers], expanding=True)))
    engine.dispose()


async def reborn(app: Mutirao, gone: set[int]) -> set[int]:
    """Wait until there are other workers; return their ids."""

    async def others() -> set[int]:
        return {worker.id for worker in await app.store.workers()} - gone

    return await until(others)


async def test_a_running_coroutine(app: Mutirao) -> None:
    """Is cancelled, because others have its job; whoever claims it next runs it, itself perhaps."""
    began, cancelled = asyncio.Event(), asyncio.Event()

    @app.task
    async def hold(job: Job) -> None:
        if job.run == 1 and not job.metadata:
            began.set()
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.set()

    async with working(app, **BEATING):
        id = hold.enqueue().id
        await soon(began.wait())
        gone = await take_for_gone(app)
        new = await reborn(app, gone)
        await soon(cancelled.wait())
        job = await ended(app, id)
        later = await ended(app, hold.using(metadata={"run": "once"}).enqueue().id)
    *lost, last = job.attempts
    assert {(str(attempt.outcome), attempt.worker) for attempt in lost} == {("lost", *gone)}
    assert str(last.outcome) == "succeeded"
    assert {attempt.worker for attempt in later.attempts} == new


async def test_a_coroutine_that_does_not_end(app: Mutirao, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though the same worker runs the job again beside it, no slot is counted twice or lost."""
    monkeypatch.setattr(dispatcher, "CANCEL_TIMEOUT", 0.2)
    began, again, enough = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @app.task
    async def hold(job: Job) -> None:
        if job.run > 1:
            again.set()
            await enough.wait()
        began.set()
        while not enough.is_set():
            try:
                await enough.wait()
            except asyncio.CancelledError:
                continue

    @app.task
    async def other() -> None:
        pass

    async def stuck() -> list[int]:
        return [worker.stuck for worker in await app.store.workers()]

    async def none_stuck() -> bool:
        return await stuck() == [0]

    async def one_stuck() -> bool:
        return await stuck() == [1]

    async with working(app, concurrency=3, **BEATING):
        try:
            id = hold.enqueue().id
            await soon(began.wait())
            await reborn(app, await take_for_gone(app))
            await soon(again.wait())
            await until(one_stuck)
            assert outcomes(await ended(app, other.enqueue().id)) == ["succeeded"]
        finally:
            enough.set()
        job = await ended(app, id)
        await until(none_stuck)
    assert set(outcomes(job)[:-1]) == {"lost"}
    assert outcomes(job)[-1] == "succeeded"


async def test_a_thread(app: Mutirao) -> None:
    """Its late transaction is stale."""
    began, enough = threading.Event(), threading.Event()
    raised: list[type[BaseException]] = []

    @app.task
    def hold(job: Job) -> None:
        if job.run > 1:
            return
        began.set()
        enough.wait(100)
        try:
            with job.transaction():
                pass
        except StaleRun as stale:
            raised.append(type(stale))
            raise

    async with working(app, concurrency=2, **BEATING):
        id = hold.enqueue().id
        await until(began.is_set)
        await take_for_gone(app)
        job = await ended(app, id)
        enough.set()
        await until(lambda: raised)
    assert set(outcomes(job)[:-1]) == {"lost"}
    assert outcomes(job)[-1] == "succeeded"


class Slow(SqlStore):
    """Takes long to answer a claim: meanwhile the worker is taken for gone and registers anew."""

    app: Mutirao
    times = 1

    def clone(self, connections: int = 1, *, within: float | None = None) -> SqlStore:
        """One of the same kind."""
        other = Slow(self.engines.url, pool_size=connections)
        other.app = self.app
        return other

    async def claim(self, *args: Any, **kwargs: Any) -> list[Claim]:
        """Claim under an id that is gone when the answer comes."""
        slow, self.times = self.times > 0, self.times - 1
        gone = await take_for_gone(self.app) if slow else set[int]()
        claims = await super().claim(*args, **kwargs)
        if slow:
            await reborn(self.app, gone)
        return claims


async def test_a_claim_on_its_way(url: str) -> None:
    """Its jobs are given back or rescued, not run under a name that is gone."""
    store = Slow(url)
    app = Mutirao(url, store=store, notifier=store.notifier())
    store.app = app
    holders: list[int | None] = []

    @app.task
    async def send(job: Job) -> None:
        holders.append((await app.ajob(job.id)).worker)

    try:
        ids = app.enqueue_many([send.job()] * 3)
        async with working(app, **BEATING):
            jobs = [await ended(app, id) for id in ids]
    finally:
        await app.aclose()
    assert [job.state for job in jobs] == [JobState.SUCCEEDED] * 3
    assert holders == [2, 2, 2]
