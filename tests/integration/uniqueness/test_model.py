"""One key against a naive model: random orders, failures and vanished workers in any order.

The model keeps every job of the key by hand. After each step the store's live jobs are the
model's, in the same states and at the same times.
"""

from __future__ import annotations

import asyncio
import itertools
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mutirao.errors import DuplicateJob
from mutirao.model.job import Claim, JobState, NewJob, OutcomeKind
from mutirao.model.records import JobFilter
from mutirao.model.uniqueness import PARKED, OnConflict, Placed, Unique
from mutirao.ports import Store
from mutirao.testing.conformance.kit import at, ended, newcomer
from tests.integration.conftest import OpenStores

_queues = (f"q{n}" for n in itertools.count())
EXPIRY = 5.0


@dataclass
class Waiting:
    """A live job: when it is due, whether it runs, and which running one it waits for."""

    due: float
    runs: bool = False
    after: int | None = None


@dataclass
class Model:
    """All live jobs of the key, and whether the last one still holds it."""

    live: dict[int, Waiting] = field(default_factory=dict)
    last: int = 0
    window: bool = False  # the last one was asked with a window
    held: bool = False  # and it ended so that the window began

    def answer(self, mode: str) -> str:
        """Say what becomes of another job."""
        steady = mode in ("keep", "error")
        if steady and (self.live or self.held):
            return "found" if mode == "keep" else "refused"
        if not self.live:
            return "inserted"
        return "rerun" if self.running() else "replaced"

    def standing(self) -> int:
        """Return the last one, or the one before it if the last was cancelled."""
        return max(self.live, default=self.last)

    def running(self) -> int | None:
        """Return the job that runs."""
        return next((id for id, job in self.live.items() if job.runs), None)

    def write(self, id: int, mode: str, due: float, window: bool) -> None:
        """Write another job: whatever waits is gone, and it comes after what runs."""
        running = self.running()
        if mode == "rerun" and self.live and self.standing() != running:
            due = min(due, self.live[self.standing()].due)
        self.live = {id: job for id, job in self.live.items() if job.runs}
        self.live[id] = Waiting(due, after=running)
        self.last, self.window, self.held = id, window, False

    def end(self, id: int, holds: bool) -> None:
        """Let a job leave, and what waited for it go."""
        del self.live[id]
        for job in self.live.values():
            job.after = None if job.after == id else job.after
        self.held = self.held or (id == self.last and holds and self.window)


class Played:
    """A key in a store, moved together with its model."""

    def __init__(self, stores: list[Store]) -> None:
        self.store, self.stores, self.model = stores[0], itertools.cycle(stores), Model()
        self.queue, self.now = next(_queues), 0.0
        self.worker, self.claims = 0, dict[int, Claim]()

    async def begin(self) -> None:
        """Have a worker."""
        self.worker = await self.store.register(newcomer(), expiry=EXPIRY, now=at(self.now))

    async def enqueue(self, mode: str, after: float) -> None:
        """Enqueue another job, by whichever handle."""
        window = mode in ("keep", "error") and after > 50
        due, said = self.now + after, self.model.answer(mode)
        unique = Unique(on_conflict=OnConflict(mode), unique_for=86_400.0 if window else None)
        new = NewJob(task="t", queue=self.queue, key="k", run_at=at(due), unique=unique)
        with suppress(DuplicateJob):
            [id] = await next(self.stores).aenqueue([new])
            assert isinstance(id, Placed)
            assert id.how == said
            if said == "found":
                assert id == self.model.standing()
            else:
                self.model.write(id, mode, due, window)
            return
        assert said == "refused"

    async def keep(self, after: float) -> None:
        await self.enqueue("keep", after)

    async def error(self, after: float) -> None:
        await self.enqueue("error", after)

    async def replace(self, after: float) -> None:
        await self.enqueue("replace", after)

    async def rerun(self, after: float) -> None:
        await self.enqueue("rerun", after)

    async def together(self, after: float) -> None:
        """Several enqueue at once; one of them is the last."""
        unique = Unique(on_conflict=OnConflict.REPLACE)
        due = self.now + after
        new = NewJob(task="t", queue=self.queue, key="k", run_at=at(due), unique=unique)
        ids = await asyncio.gather(*(next(self.stores).aenqueue([new]) for _ in range(4)))
        left = {job.id for job in await self.live()} & {int(id) for [id] in ids}
        assert len(left) == 1
        self.model.write(left.pop(), "replace", due, False)

    async def claim(self, _: float) -> None:
        """A worker takes what is due: never a second one."""
        lanes = [head.lane for head in await self.store.lanes([self.queue], now=at(self.now))]
        claims = await self.store.claim(self.worker, lanes, 9, now=at(self.now))
        self.claims |= {claim.id: claim for claim in claims}
        due = {
            id
            for id, job in self.model.live.items()
            if job.after is None and not job.runs and job.due <= self.now
        }
        assert {claim.id for claim in claims} == due
        for id in due:
            self.model.live[id].runs = True

    async def settle(self, kind: OutcomeKind, now: datetime, after: float = 0) -> None:
        """Settle what runs."""
        id = self.model.running()
        if id is None:
            return
        settlement = ended(self.claims[id], kind, after=after)
        assert await self.store.settle(self.worker, [settlement], now=now) == {id}
        if kind.final:
            self.model.end(id, now > at(1e7) and kind != OutcomeKind.CANCELLED)
        else:
            self.model.live[id] = Waiting(self.now + after)

    async def succeed(self, _: float) -> None:
        """It ended just now, so that a window is open."""
        await self.settle(OutcomeKind.SUCCEEDED, datetime.now(UTC))

    async def die(self, _: float) -> None:
        """It ended long ago, so that its window is over."""
        await self.settle(OutcomeKind.DEAD, at(self.now))

    async def give_up(self, _: float) -> None:
        """The handler cancelled it."""
        await self.settle(OutcomeKind.CANCELLED, datetime.now(UTC))

    async def fail(self, after: float) -> None:
        """It waits for its next attempt."""
        await self.settle(OutcomeKind.RETRIED, at(self.now), after)

    async def vanish(self, _: float) -> None:
        """The worker is gone, and another one comes."""
        self.now += 2 * EXPIRY
        await self.store.rescue(now=at(self.now))
        for job in self.model.live.values():
            job.runs = False
        await self.begin()

    async def cancel(self, _: float) -> None:
        """Somebody cancels the oldest that waits."""
        waiting = [id for id, job in self.model.live.items() if not job.runs]
        if waiting:
            chosen = min(waiting)
            await self.store.cancel(JobFilter(ids=(chosen,)), now=at(self.now))
            self.model.end(chosen, False)

    async def pass_(self, seconds: float) -> None:
        """Time goes by."""
        self.now += seconds

    async def live(self) -> list[Any]:
        """Return the live jobs of the store."""
        jobs = await self.store.jobs(JobFilter(queue=self.queue, limit=None))
        return [job for job in jobs if job.finished_at is None]

    async def check(self) -> None:
        """The live jobs are the model's; at most one runs, and at most one waits for it."""
        found = {job.id: (job.state == JobState.RUNNING, job.run_at) for job in await self.live()}
        expected = {
            id: (job.runs, at(job.due) if job.after is None else PARKED)
            for id, job in self.model.live.items()
        }
        assert found == expected
        assert len(found) <= 2
        assert sum(runs for runs, _ in found.values()) <= 1


WORDS = (
    *("keep", "error", "replace", "rerun", "rerun", "together", "claim", "claim"),
    *("succeed", "die", "give_up", "fail", "vanish", "cancel", "pass_"),
)
# Mostly at once: a job that is not due is never claimed, and then little can happen to it.
AMOUNTS = st.one_of(st.just(0), st.just(0), st.integers(0, 100))
ACTIONS = st.lists(st.tuples(st.sampled_from(WORDS), AMOUNTS), min_size=5, max_size=30)


@pytest.mark.parametrize(("kind", "examples"), [("sqlite", 60), ("postgresql", 60)])
def test_whatever_happens(kind: str, examples: int, open_stores: OpenStores) -> None:
    """The store agrees with the model after every single step."""
    opened = open_stores(kind)

    @settings(deadline=None, max_examples=examples, suppress_health_check=[HealthCheck.too_slow])
    @given(actions=ACTIONS)
    def play(actions: list[tuple[str, int]]) -> None:
        asyncio.run(_play(opened(), actions))

    play()


async def _play(stores: list[Store], actions: list[tuple[str, int]]) -> None:
    played = Played(stores)
    try:
        await played.begin()
        for action, amount in actions:
            await getattr(played, action)(float(amount))
            await played.check()
    finally:
        for store in stores:
            await store.close()
