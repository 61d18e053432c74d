"""Slots are free again, and attempts settled, however little of them there was."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from functools import partial
from typing import Any

import pytest

from mutirao import Job, JobState, Mutirao, Retry
from mutirao.engine.calls import outcomes
from mutirao.engine.calls.attempt import started_task
from mutirao.engine.dispatch import dispatcher
from mutirao.engine.dispatch.attempt_log import JobLog
from mutirao.engine.dispatch.dispatcher import Dispatcher
from mutirao.model.jobs.job import Claim
from mutirao.model.jobs.outcome import lending
from mutirao.testing.memory import MemoryStore
from tests.support.waiting import soon, until


async def test_cancelled_before_its_first_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such a task does not run at all where tasks are not eager, as on Python 3.11."""
    app, begun, interrupted = Mutirao(store=MemoryStore()), list[int](), list[Any]()
    done = asyncio.Event()
    feed = Dispatcher.feed

    def feed_and_interrupt(self: Dispatcher, claims: Iterable[Claim]) -> None:
        feed(self, claims)
        if not interrupted:
            interrupted.extend(self.interrupt_all(outcomes.RELEASED))

    @app.task
    async def step(job: Job) -> None:
        begun.append(job.attempt)
        done.set()

    monkeypatch.setattr(
        dispatcher, "started_task", lambda attempt, loop, context: loop.create_task(attempt)
    )
    monkeypatch.setattr(Dispatcher, "feed", feed_and_interrupt)
    async with app.worker(concurrency=1, poll=0.05) as worker:
        handle = await step.aenqueue()
        await soon(done.wait())
        assert worker.health().stuck == 0
    job = await app.ajob(handle.id)
    assert (job.state, begun, len(interrupted)) == (JobState.SUCCEEDED, [1], 1)
    assert [str(attempt.outcome) for attempt in job.attempts] == ["released", "succeeded"]


async def succeeded(app: Mutirao, id: int) -> bool:
    """Tell whether a job has."""
    return (await app.ajob(id)).state is JobState.SUCCEEDED


async def test_a_plain_function_takes_no_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that returns an awaitable after all is followed by one; so is a coroutine that waits."""
    app, made = Mutirao(store=MemoryStore()), list[object]()
    task = started_task

    def counted(*given: Any) -> asyncio.Task[None]:
        made.append(given)
        return task(*given)

    @app.task
    def plain() -> None: ...

    async def coroutine() -> None: ...

    @app.task
    def hidden() -> object:
        return coroutine()

    monkeypatch.setattr(dispatcher, "started_task", counted)
    for called, tasks in ((plain, 0), (hidden, 1)):
        made.clear()
        async with app.worker(poll=0.05):
            handle = await called.aenqueue()
            await until(partial(succeeded, app, handle.id))
        assert ((await app.ajob(handle.id)).state, len(made)) == (JobState.SUCCEEDED, tasks)


async def test_slots_that_are_lent() -> None:
    """Others run in the place of what only waits: at most twice as many as there are slots."""
    app, begun, go_on = Mutirao(store=MemoryStore()), list[int](), asyncio.Event()

    @app.task
    async def wait(job: Job) -> None:
        begun.append(job.id)
        for _ in range(2):
            lending(job)()
        await go_on.wait()

    ids = await app.aenqueue_many([wait.job() for _ in range(6)])

    async def claimed() -> bool:
        return (await app.ajob(ids[4])).state is JobState.RUNNING

    async with app.worker(concurrency=2, poll=0.05):
        await until(claimed)
        assert begun == ids[:4]
        go_on.set()
        for id in ids:
            await until(partial(succeeded, app, id))
    assert len(begun) == 6


async def test_what_fails_beside_a_plain_function(monkeypatch: pytest.MonkeyPatch) -> None:
    """It costs this attempt, and none of those that end together with it."""
    app, failed = Mutirao(store=MemoryStore()), list[int]()
    log_end = JobLog.ended

    def fail_once(self: JobLog, claim: Claim, *rest: Any) -> None:
        if not failed:
            failed.append(claim.id)
            raise RuntimeError("the log is full")
        log_end(self, claim, *rest)

    @app.task(retry=Retry.fixed(interval=0))
    def plain() -> None: ...

    monkeypatch.setattr(JobLog, "ended", fail_once)
    ids = await app.aenqueue_many([plain.job() for _ in range(5)])
    async with app.worker(poll=0.05):
        for id in ids:
            await until(partial(succeeded, app, id))
    jobs = [await app.ajob(id) for id in ids]
    assert {job.state for job in jobs} == {JobState.SUCCEEDED}
    assert {job.id: len(job.attempts) for job in jobs if len(job.attempts) > 1} == {failed[0]: 2}
