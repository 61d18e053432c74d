"""A thread whose call has ended begins the next job, and the event loop learns of it afterwards."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from functools import partial
from time import monotonic

import pytest

from mutirao import Job, JobState, Mutirao
from mutirao.engine.calls import outcomes
from mutirao.engine.calls.attempt import Running
from mutirao.engine.dispatch import slots
from mutirao.engine.dispatch.dispatcher import Dispatcher
from mutirao.model.jobs.job import Claim
from mutirao.testing.memory import MemoryStore
from tests.support.waiting import until

PATIENCE = 100.0  # seconds


class Stage:
    """A worker with one slot, and three jobs; the test says when each may end."""

    def __init__(self) -> None:
        """Make the jobs' task."""
        self.app = Mutirao(store=MemoryStore())
        self.begun, self.told = [threading.Event() for _ in range(3)], list[bool]()
        self.may_end = [threading.Event() for _ in range(3)]
        self.dispatcher: Dispatcher
        self.claims = list[Claim]()
        self.task = self.app.task(self._handle)

    def _handle(self, job: Job, number: int) -> None:
        self.begun[number].set()
        assert self.may_end[number].wait(PATIENCE)
        self.told.append(job.cancelled)

    def go_on_to(self, number: int) -> None:
        """Let the one before end, and wait for the next to begin. The event loop is blocked."""
        self.may_end[number - 1].set()
        assert self.begun[number].wait(PATIENCE)

    def keys(self, *numbers: int) -> list[tuple[int, int]]:
        """Return (id, run) of these."""
        return [(self.claims[n].id, self.claims[n].run) for n in numbers]

    async def states(self) -> list[JobState]:
        """Return those of the jobs."""
        return [(await self.app.ajob(claim.id)).state for claim in self.claims]

    async def all_succeeded(self) -> bool:
        """Return whether they have."""
        return await self.states() == [JobState.SUCCEEDED] * 3


@asynccontextmanager
async def staged(
    monkeypatch: pytest.MonkeyPatch, timeout: float | None = None
) -> AsyncIterator[Stage]:
    """Lend a stage on which the first job runs; at the end all may end."""
    stage, feed = Stage(), Dispatcher.feed

    def fed(self: Dispatcher, claims: Iterable[Claim]) -> None:
        stage.dispatcher = self
        stage.claims.extend(found := list(claims))
        feed(self, found)

    monkeypatch.setattr(Dispatcher, "feed", fed)
    # As if it knew how long they take.
    monkeypatch.setattr(slots.Pace, "ahead", lambda pace, share: 2)
    monkeypatch.setattr(slots, "STALL_SECONDS", PATIENCE)  # a slow machine would release the others
    task = stage.task.using(timeout=timeout)
    await stage.app.aenqueue_many([task.job(n) for n in range(3)])

    def all_are_claimed() -> bool:
        return len(stage.claims) == 3 and stage.begun[0].is_set()

    async with stage.app.worker(concurrency=1, poll=0.05, grace=5):
        try:
            await until(all_are_claimed)
            yield stage
        finally:
            for each in stage.may_end:
                each.set()


async def test_without_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which is blocked while all of them run, one at a time."""
    async with staged(monkeypatch) as stage:
        for number in (1, 2):
            stage.go_on_to(number)
            assert not any(event.is_set() for event in stage.begun[number + 1 :])
        stage.may_end[2].set()
        await until(stage.all_succeeded)
    assert await stage.all_succeeded()


async def test_what_a_thread_has_begun_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though the event loop has not taken note of it: it is no unknown job, and not unstarted."""
    async with staged(monkeypatch) as stage:
        stage.go_on_to(1)
        dispatcher = stage.dispatcher
        assert dispatcher.holds() == set(stage.keys(0, 1, 2))
        assert dispatcher.drop_unstarted() == stage.keys(2)
        assert dispatcher.holds() == set(stage.keys(0, 1))


@pytest.mark.parametrize("order", ["cancel", "lose", "interrupt"])
async def test_what_a_thread_has_begun_is_told(monkeypatch: pytest.MonkeyPatch, order: str) -> None:
    """That it shall end, as all that run: once somebody says so, the event loop knows of it."""
    async with staged(monkeypatch) as stage:
        stage.go_on_to(1)
        dispatcher = stage.dispatcher
        if order == "cancel":
            dispatcher.cancel(stage.keys(1))
        elif order == "lose":
            dispatcher.lose(stage.keys(1, 2))
            assert dispatcher.holds() == set(stage.keys(0, 1))
        else:
            assert dispatcher.interrupt_all(outcomes.LOST) == stage.keys(1)
        stage.may_end[1].set()
        await until(lambda: len(stage.told) >= 2)
    assert stage.told[:2] == [False, True]


@pytest.mark.parametrize("why", ["closed", "lifetime"])
async def test_nothing_is_begun_that_must_not(monkeypatch: pytest.MonkeyPatch, why: str) -> None:
    """Once the worker stops, or others may have its jobs."""
    async with staged(monkeypatch) as stage:
        dispatcher, before = stage.dispatcher, _running(stage.claims[0])
        if why == "closed":
            dispatcher.close()
        else:
            dispatcher.set_lifetime(monotonic() - 1)
        assert dispatcher.take_over(before) is None
        assert dispatcher.drop_unstarted() == stage.keys(1, 2)


async def test_a_slot_that_was_left_is_not_left_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who has lent its slot leaves none."""
    async with staged(monkeypatch) as stage:
        before = _running(stage.claims[0])
        before.lent = True
        assert stage.dispatcher.take_over(before) is None


async def test_its_timeout_counts_from_its_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    """And ends it, though the event loop learned of it later."""
    async with staged(monkeypatch, timeout=0.5) as stage:
        stage.go_on_to(1)
        await until(partial(_has_attempt, stage))
    attempt = (await stage.app.ajob(stage.claims[1].id)).attempts[0]
    assert attempt.error_type == "AttemptTimeout"


async def _has_attempt(stage: Stage) -> bool:
    return bool((await stage.app.ajob(stage.claims[1].id)).attempts)


def _running(claim: Claim) -> Running:
    return Running(claim, lambda *_: pytest.fail("no transaction"))
