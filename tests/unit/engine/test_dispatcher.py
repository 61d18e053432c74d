"""Slots are free again, and attempts settled, however little of them there was."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest

from mutirao import Job, JobState, Mutirao
from mutirao.engine import dispatcher, outcomes
from mutirao.engine.dispatcher import Dispatcher
from mutirao.model.job import Claim
from mutirao.testing.memory import MemoryStore
from tests.support.waiting import soon


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
        dispatcher, "_task", lambda attempt, loop, context: loop.create_task(attempt)
    )
    monkeypatch.setattr(Dispatcher, "feed", feed_and_interrupt)
    async with app.worker(concurrency=1, poll=0.05) as worker:
        handle = await step.aenqueue()
        await soon(done.wait())
        assert worker.health().stuck == 0
    job = await app.ajob(handle.id)
    assert (job.state, begun, len(interrupted)) == (JobState.SUCCEEDED, [1], 1)
    assert [str(attempt.outcome) for attempt in job.attempts] == ["released", "succeeded"]
