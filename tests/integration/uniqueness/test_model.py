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
from math import inf
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from mutirao.errors import DuplicateJob
from mutirao.model.jobs.job import Claim, JobState, NewJob, OutcomeKind
from mutirao.model.jobs.records import JobFilter
from mutirao.model.keys.uniqueness import FOREVER, PARKED, OnConflict, Placed, Unique
from mutirao.ports import Store
from mutirao_conformance.kit import at, ended, newcomer
from tests.integration.conftest import OpenStores
from tests.support.repeats import Share

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
    """All live jobs of the key, the version of the last one, and whether that still holds it."""

    live: dict[int, Waiting] = field(default_factory=dict)
    last: int = 0
    version: float | None = None
    window: float | None = None  # that of the last one
    held: bool = False  # and it ended so that the window began

    def answer(self, mode: str, version: float | None = None) -> str:
        """Say what becomes of another job."""
        if version is not None and self.version is not None and version < self.version:
            return "outdated"
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

    def write(
        self,
        id: int,
        mode: str,
        due: float,
        window: float | None = None,
        version: float | None = None,
    ) -> None:
        """Write another job: whatever waits is gone, and it comes after what runs."""
        running = self.running()
        if mode == "rerun" and self.live and self.standing() != running:
            due = min(due, self.live[self.standing()].due)
        self.live = {id: job for id, job in self.live.items() if job.runs}
        self.live[id] = Waiting(due, after=running)
        self.last, self.window, self.held, self.version = id, window, False, version

    def end(self, id: int, ago: float = inf) -> None:
        """Let a job leave, and what waited for it go. It is said how long ago that was."""
        del self.live[id]
        for job in self.live.values():
            job.after = None if job.after == id else job.after
        if id == self.last and self.window is not None:
            self.held = self.held or ago < self.window


class Played:
    """A key in a store, moved together with its model."""

    def __init__(self, stores: list[Store]) -> None:
        self.store, self.stores, self.model = stores[0], itertools.cycle(stores), Model()
        self.queue, self.now = next(_queues), 0.0
        self.worker, self.claims = 0, dict[int, Claim]()

    async def begin(self) -> None:
        """Have a worker."""
        self.worker = await self.store.register(newcomer(), expiry=EXPIRY, now=at(self.now))

    async def enqueue(
        self,
        mode: str,
        after: float,
        version: float | None = None,
        window: float | None = None,
    ) -> None:
        """Enqueue another job, by whichever handle."""
        due, said = self.now + after, self.model.answer(mode, version)
        unique = Unique(on_conflict=OnConflict(mode), unique_for=window, version=version)
        new = NewJob(task="t", queue=self.queue, key="k", run_at=at(due), unique=unique)
        with suppress(DuplicateJob):
            [id] = await next(self.stores).aenqueue([new])
            assert isinstance(id, Placed)
            assert id.how == said
            if said == "found":
                assert id == self.model.standing()
            elif said == "outdated":
                assert id == self.model.last
            else:
                self.model.write(id, mode, due, window, version)
            return
        assert said == "refused"

    async def keep(self, after: float) -> None:
        await self.enqueue("keep", after)

    async def hold(self, after: float) -> None:
        await self.enqueue("keep", 0, window=86_400.0 if after < 50 else FOREVER)

    async def error(self, after: float) -> None:
        await self.enqueue("error", after)

    async def replace(self, after: float) -> None:
        await self.enqueue("replace", after)

    async def rerun(self, after: float) -> None:
        await self.enqueue("rerun", after)

    async def update(self, number: float) -> None:
        await self.enqueue("rerun", 0, number)

    async def revise(self, number: float) -> None:
        await self.enqueue("replace", 0, number)

    async def together(self, after: float) -> None:
        """Several enqueue at once; one of them is the last."""
        unique = Unique(on_conflict=OnConflict.REPLACE)
        due = self.now + after
        new = NewJob(task="t", queue=self.queue, key="k", run_at=at(due), unique=unique)
        ids = await asyncio.gather(*(next(self.stores).aenqueue([new]) for _ in range(4)))
        left = {job.id for job in await self.live()} & {int(id) for [id] in ids}
        assert len(left) == 1
        self.model.write(left.pop(), "replace", due)

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
            ago = 0 if now > at(1e7) else 1e7
            self.model.end(id, inf if kind == OutcomeKind.CANCELLED else ago)
        elif any(job.after == id for job in self.model.live.values()):
            self.model.end(id)  # the newer one is next
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

    async def give_back(self, _: float) -> None:
        """A worker that claimed it did not begin."""
        if (id := self.model.running()) is not None:
            assert await self.store.release([(id, self.claims[id].run)]) == {id}
            self.model.live[id].runs = False

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
            self.model.end(chosen)

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
    *("keep", "hold", "error", "replace", "rerun", "rerun", "together", "claim", "claim"),
    *("update", "update", "revise"),
    *("succeed", "die", "give_up", "fail", "give_back", "vanish", "cancel", "pass_"),
)
# Mostly at once: a job that is not due is never claimed, and then little can happen to it.
AMOUNTS = st.one_of(st.just(0), st.just(0), st.integers(0, 100))
ACTIONS = st.lists(st.tuples(st.sampled_from(WORDS), AMOUNTS), min_size=5, max_size=30)


@pytest.mark.parametrize(("kind", "examples"), [("sqlite", 60), ("postgresql", 60)])
def test_whatever_happens(kind: str, examples: int, open_stores: OpenStores, share: Share) -> None:
    """The store agrees with the model after every single step."""
    opened = open_stores(kind)

    @settings(max_examples=share(examples))
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
