"""A key with a supersede rule against a naive model: a list of jobs, the first of which may run.

After each step the store's live jobs are the model's: the same arguments, states and times.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from mutirao.model.jobs.job import Claim, JobState, NewJob, OutcomeKind
from mutirao.model.jobs.records import JobFilter
from mutirao.model.keys.supersede import Supersede
from mutirao.model.keys.uniqueness import PARKED, Placed, Unique
from mutirao.ports import Store
from mutirao_conformance.kit import at, ended, newcomer
from tests.integration.conftest import OpenStores
from tests.support.repeats import Share

_queues = (f"s{n}" for n in itertools.count())
EXPIRY = 5.0
UNIQUE = Unique(supersede=Supersede.activities(drop_repeated=True))
LEFT = {
    ("Create", "Update"): "merged",
    ("Create", "Delete"): "superseded",
    ("Update", "Update"): "replaced",
    ("Update", "Delete"): "replaced",
    ("Add", "Remove"): "superseded",
    ("Remove", "Add"): "superseded",
}
KINDS = ("Create", "Create", "Update", "Update", "Update", "Delete", "Delete", "Add", "Remove")


@dataclass
class Waiting:
    """A live job of the key. `tried`: somebody has, or has begun to."""

    id: int
    kind: str
    n: int
    due: float
    tried: bool = False
    runs: bool = False


class Known:
    """What was done of the key last, where it is known that nothing was tried after that."""

    def __init__(self) -> None:
        self.last, self.fate = Waiting(0, "", -1, 0), "tried"
        self.done: Waiting | None = None

    def now(self) -> Waiting | None:
        """Return the job that did it; None if nobody knows."""
        if self.fate == "succeeded":
            return self.last
        return None if self.fate == "tried" else self.done

    def enqueued(self, job: Waiting, fate: str, follows: bool) -> None:
        """Note the one that is the last from now on."""
        self.done = None if follows else self.now()
        self.last, self.fate = job, fate

    def ended(self, job: Waiting, fate: str) -> None:
        """Note what became of one."""
        if job is self.last:
            self.fate = fate


class Played:
    """A key in a store, moved together with its model."""

    def __init__(self, stores: list[Store]) -> None:
        self.store, self.stores = stores[0], itertools.cycle(stores)
        self.line: list[Waiting] = []
        self.known = Known()
        self.queue, self.now, self.count = next(_queues), 0.0, itertools.count()
        self.worker, self.claims = 0, dict[int, Claim]()

    async def begin(self) -> None:
        """Have a worker."""
        self.worker = await self.store.register(newcomer(), expiry=EXPIRY, now=at(self.now))

    def new(self, kind: str, n: int, due: float) -> NewJob:
        """Return a job of the key."""
        args = json.dumps({"type": kind, "n": n})
        return NewJob(task="t", args=args, queue=self.queue, key="k", run_at=at(due), unique=UNIQUE)

    def write(self, id: int, kind: str, n: int, due: float) -> str:
        """Let the model decide about another job; return how."""
        last, done, new = self.line[-1] if self.line else None, self.known.now(), None
        how, follows = "inserted", False
        if last is None or last.tried or (last.kind, kind) not in LEFT:
            how, follows = ("follows", True) if last else ("inserted", False)
            new = Waiting(id, kind, n, due)
        else:
            self.line.pop()
            how = LEFT[last.kind, kind]
            if how == "merged":
                new = Waiting(id, last.kind, n, last.due)
            elif how == "replaced":
                new = Waiting(id, kind, n, due)
        if new and done and not follows and (new.kind, new.n) == (done.kind, done.n):
            if last is None:
                assert id == done.id
                return "repeated"
            how, new = "superseded", None
        self.line += [new] if new else []
        fate = "live" if new else "untried"
        self.known.enqueued(new or Waiting(id, kind, n, due), fate, follows)
        return how

    async def enqueue(self, after: int) -> None:
        """Enqueue one, by whichever handle."""
        await self.enqueue_many(after, 1)

    async def several(self, after: int) -> None:
        """Enqueue some in one call."""
        await self.enqueue_many(after, 2 + after % 3)

    async def enqueue_many(self, after: int, count: int) -> None:
        """Enqueue jobs whose kinds depend on the amount."""
        due, jobs = self.now + after, [next(self.count) for _ in range(count)]
        asked = [(KINDS[(n + after) % len(KINDS)], n % 2) for n in jobs]
        ids = await next(self.stores).aenqueue([self.new(kind, n, due) for kind, n in asked])
        for id, (kind, n) in zip(ids, asked, strict=True):
            assert isinstance(id, Placed)
            assert id.how == self.write(int(id), kind, n, due)

    async def together(self, after: int) -> None:
        """Several enqueue an update at once, in some order."""
        due, numbers = self.now + after, [next(self.count) + 2 for _ in range(4)]
        jobs = [self.new("Update", n, due) for n in numbers]
        ids = await asyncio.gather(*(next(self.stores).aenqueue([job]) for job in jobs))
        placed = sorted(zip((int(id) for [id] in ids), numbers, strict=True))
        for id, n in placed:
            self.write(id, "Update", n, due)

    async def claim(self, _: int) -> None:
        """A worker takes what is due: the first one, or nothing."""
        lanes = [head.lane for head in await self.store.lanes([self.queue], now=at(self.now))]
        claims = await self.store.claim(self.worker, lanes, 9, now=at(self.now))
        self.claims |= {claim.id: claim for claim in claims}
        first = self.line[0] if self.line else None
        due = first is not None and not first.runs and first.due <= self.now
        assert [claim.id for claim in claims] == ([first.id] if first and due else [])
        if first is not None and due:
            first.runs = first.tried = True

    async def settle(self, kind: OutcomeKind, after: float = 0) -> None:
        """Settle what runs."""
        if not self.line or not self.line[0].runs:
            return
        first = self.line[0]
        settlement = ended(self.claims[first.id], kind, after=after)
        assert await self.store.settle(self.worker, [settlement], now=at(self.now)) == {first.id}
        if kind.final:
            done = kind is OutcomeKind.SUCCEEDED
            self.known.ended(self.line.pop(0), "succeeded" if done else "tried")
        else:
            first.runs, first.due = False, self.now + after

    async def succeed(self, _: int) -> None:
        await self.settle(OutcomeKind.SUCCEEDED)

    async def die(self, _: int) -> None:
        await self.settle(OutcomeKind.DEAD)

    async def fail(self, after: int) -> None:
        """It waits for its next attempt."""
        await self.settle(OutcomeKind.RETRIED, after)

    async def vanish(self, _: int) -> None:
        """The worker is gone, and another one comes."""
        self.now += 2 * EXPIRY
        await self.store.rescue(now=at(self.now))
        for job in self.line:
            job.runs = False
        await self.begin()

    async def cancel(self, which: int) -> None:
        """Somebody cancels one that waits."""
        waiting = [job for job in self.line if not job.runs]
        if waiting:
            chosen = waiting[which % len(waiting)]
            await self.store.cancel(JobFilter(ids=(chosen.id,)), now=at(self.now))
            self.gone(chosen)

    async def cancel_all(self, _: int) -> None:
        """Somebody cancels all that wait."""
        waiting = tuple(job.id for job in self.line if not job.runs)
        await self.store.cancel(JobFilter(ids=waiting), now=at(self.now))
        for job in [job for job in self.line if not job.runs]:
            self.gone(job)

    def gone(self, job: Waiting) -> None:
        """Let the model forget one that was cancelled."""
        self.line.remove(job)
        self.known.ended(job, "tried" if job.tried else "untried")

    async def run_now(self, _: int) -> None:
        """Somebody wants them now: that is the first one's privilege."""
        waiting = tuple(job.id for job in self.line if not job.runs)
        await self.store.run_now(JobFilter(ids=waiting), now=at(self.now))
        if self.line and not self.line[0].runs:
            self.line[0].due = min(self.line[0].due, self.now)

    async def pass_(self, seconds: int) -> None:
        """Time goes by."""
        self.now += seconds

    async def check(self) -> None:
        """The live jobs are the model's, in their order; all but the first are parked."""
        jobs = await self.store.jobs(JobFilter(queue=self.queue, limit=None))
        found = {job.id: seen(job) for job in jobs if job.finished_at is None}
        expected = {
            job.id: (job.kind, job.n, job.runs, at(job.due) if job is self.line[0] else PARKED)
            for job in self.line
        }
        assert found == expected


def seen(job: Any) -> tuple[Any, ...]:
    """Return what the model knows of a job."""
    return job.args["type"], job.args["n"], job.state == JobState.RUNNING, job.run_at


WORDS = (
    *("enqueue", "enqueue", "enqueue", "several", "several", "together", "claim", "claim"),
    *("succeed", "die", "fail", "vanish", "cancel", "cancel_all", "run_now", "pass_"),
)
AMOUNTS = st.one_of(st.just(0), st.integers(0, 9), st.integers(0, 100))
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
            await getattr(played, action)(amount)
            await played.check()
    finally:
        for store in stores:
            await store.close()
