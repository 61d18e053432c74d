"""Any history of jobs and limits is the model's: claims, endings, failures, vanished workers, time.

The model keeps by hand which jobs run and when which started. After each step nothing runs that a
limit forbids, the tables count what runs and nothing else, and a claim leaves nothing that might
run. In the end everything has run.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import pytest
from hypothesis import given, settings, strategies as st

from mutirao.model.jobs.job import Claim, JobState, NewJob, OutcomeKind
from mutirao.model.jobs.records import JobFilter
from mutirao.model.limits.limits import Limit, Rule, pause_of
from mutirao.ports import Store
from mutirao_conformance.kit import at, ended, newcomer, take
from tests.integration.conftest import OpenStores
from tests.support.repeats import Share

_numbers = itertools.count()
EXPIRY = 5.0
TENANTS = ("a", "b", "c")
PERIOD, BURST, RATE = 10.0, 2, 5


@dataclass
class Asked:
    """A live job of the model."""

    task: str
    tenant: str
    due: float
    claim: Claim | None = None


class Played:
    """A queue in a store with limits, moved together with its model."""

    def __init__(self, stores: list[Store]) -> None:
        self.store, self.stores = stores[0], itertools.cycle(stores)
        self.mark = f"m{next(_numbers)}"
        self.queue, self.now, self.worker = f"q-{self.mark}", 0.0, 0
        self.jobs: dict[int, Asked] = {}
        self.most: dict[str, int] = {}
        self.pauses: set[str] = set()
        self.starts: list[float] = []

    async def begin(self) -> None:
        """Have a worker, and a rate on one of the tasks."""
        self.worker = await self.store.register(newcomer(), expiry=EXPIRY, now=at(self.now))
        rate = Limit(RATE, per=PERIOD, burst=BURST).on(task=self.task("r"))
        await self.store.limits.put(rate, now=at(self.now))

    def task(self, name: str) -> str:
        """Return the name of a task that no other history has."""
        return f"{name}-{self.mark}"

    async def enqueue(self, n: int) -> None:
        """Enqueue some jobs."""
        news, asked = [], []
        for i in range(1 + n % 5):
            name, tenant = "tr"[(n + i) // 3 % 2], TENANTS[(n + i) % 3]
            due = self.now + (n % 7 == 3) * 2
            asked.append(Asked(name, tenant, due))
            args = json.dumps({"tenant": tenant})
            new = NewJob(
                task=self.task(name), args=args, queue=self.queue, run_at=at(due),
                priority=n % 2,
            )  # fmt: skip
            news.append(new)
        ids = await next(self.stores).aenqueue(news)
        self.jobs |= zip(ids, asked, strict=True)

    async def limit_queue(self, n: int) -> None:
        """Make or change the limit of the queue."""
        await self.limit("queue", n, Limit(1 + n % 6).on(queue=self.queue))

    async def limit_tenants(self, n: int) -> None:
        """Make or change the limit by tenant."""
        await self.limit("tenant", n, Limit(1 + n % 3, by="tenant").on(task=self.task("t")))

    async def limit(self, what: str, n: int, rule: Rule) -> None:
        """Put a limit, or remove it."""
        if n % 10 == 9:
            await self.store.limits.remove(rule.name, now=at(self.now))
            self.most.pop(what, None)
        else:
            await next(self.stores).limits.put(rule, now=at(self.now))
            self.most[what] = rule.most

    async def pause(self, n: int) -> None:
        """Pause or resume the queue, a task, or a tenant of it."""
        what = ("queue", "task", "key")[n % 3]
        rule = {
            "queue": pause_of(self.queue, None),
            "task": pause_of(None, self.task("t")),
            "key": pause_of(None, self.task("t"), "tenant", "a"),
        }[what]
        if what in self.pauses:
            assert await next(self.stores).limits.remove(rule.name, now=at(self.now))
            self.pauses.remove(what)
        else:
            await next(self.stores).limits.put(rule, now=at(self.now))
            self.pauses.add(what)

    async def claim(self, n: int) -> None:
        """A worker takes what may run: never more, and never less while there is room."""
        before = self.running()
        most = 1 + n % 9
        claims = await take(
            next(self.stores), self.worker, most, now=at(self.now), queues=[self.queue]
        )
        assert len(claims) <= most
        for claim in claims:
            job = self.jobs[claim.id]
            assert job.claim is None
            assert job.due <= self.now + 1e-6  # moments are whole microseconds
            assert not self.paused(job)
            job.claim = claim
            if job.task == "r":
                self.starts.append(self.now)
        if claims:
            self.check_limits(before)
        if len(claims) < most:
            assert [id for id, job in self.jobs.items() if self.may_run(job)] == []

    def running(self) -> list[Asked]:
        """Return the jobs that run."""
        return [job for job in self.jobs.values() if job.claim is not None]

    def paused(self, job: Asked) -> bool:
        """Whether a pause is about a job."""
        if "queue" in self.pauses:
            return True
        return job.task == "t" and (
            "task" in self.pauses or ("key" in self.pauses and job.tenant == "a")
        )

    def counted(self, jobs: Iterable[Asked]) -> Counter[str]:
        """Count running jobs as the limits do."""
        found = list(jobs)
        tenants = Counter(job.tenant for job in found if job.task == "t")
        return tenants + Counter({"queue": len(found)})

    def check_limits(self, before: list[Asked]) -> None:
        """Nothing that was started now is one too many; what ran before may be, if lowered."""
        now, then = self.counted(self.running()), self.counted(before)
        for name, count in now.items():
            most = self.most.get("queue" if name == "queue" else "tenant")
            assert most is None or count <= max(most, then[name]), (name, count, most)
        for moment in self.starts:
            window = [each for each in self.starts if moment <= each <= self.now]
            earned = BURST + (self.now - moment) * RATE / PERIOD
            assert len(window) <= earned + 1e-6

    def may_run(self, job: Asked) -> bool:
        """Whether a due job is left though nothing is in its way."""
        if job.claim is not None or job.due > self.now or self.paused(job) or job.task == "r":
            return False
        count = self.counted(self.running())
        return all(
            self.most.get(limit) is None or count[name] < self.most[limit]
            for limit, name in (("queue", "queue"), ("tenant", job.tenant))
        )

    async def settle(self, n: int) -> None:
        """Some of what runs ends, one way or another, together."""
        kinds = (OutcomeKind.SUCCEEDED, OutcomeKind.RETRIED, OutcomeKind.DEAD, OutcomeKind.SNOOZED)
        held = [(id, job) for id, job in self.jobs.items() if job.claim is not None][: 1 + n % 4]
        batch = []
        for place, (id, job) in enumerate(held):
            assert job.claim is not None
            kind = kinds[(n + place) % 4]
            batch.append(ended(job.claim, kind, after=0))
            job.claim = None
            job.due = self.now
            if kind.final:
                del self.jobs[id]
        settled = await next(self.stores).settle(self.worker, batch, now=at(self.now))
        assert settled == {each.id for each in batch}

    async def release(self, n: int) -> None:
        """Some are given back unstarted."""
        held = [job for job in self.jobs.values() if job.claim is not None][: 1 + n % 3]
        claims = [(job.claim.id, job.claim.run) for job in held if job.claim is not None]
        assert await self.store.release(claims) == {id for id, _ in claims}
        for job in held:
            job.claim = None

    async def vanish(self, _: int) -> None:
        """The worker is gone, and another one comes."""
        self.now += 2 * EXPIRY
        await self.store.rescue(now=at(self.now))
        for job in self.running():
            job.claim = None
        self.worker = await self.store.register(newcomer(), expiry=EXPIRY, now=at(self.now))

    async def cancel(self, n: int) -> None:
        """Somebody cancels some that wait."""
        waiting = [id for id, job in self.jobs.items() if job.claim is None]
        chosen = tuple(waiting[n % 3 : n % 3 + 2])
        if chosen:
            which = JobFilter(ids=chosen)
            assert set(await self.store.cancel(which, now=at(self.now))) == set(chosen)
            for id in chosen:
                del self.jobs[id]

    async def pass_(self, n: int) -> None:
        """Time goes by."""
        self.now = round(self.now + n % 10 / 3, 6)  # as a database keeps it

    async def check(self) -> None:
        """The tables hold what the model does: nothing leaked, nothing lost."""
        limits = [r for r in await self.store.limits.listed() if self.mark in f"{r.task} {r.queue}"]
        count = self.counted(self.running())
        for record in limits:
            if record.per is None and not record.paused:
                name = record.key if record.by else "queue"
                assert record.running == count[name or ""], record
        found = await self.store.jobs(JobFilter(queue=self.queue, limit=None))
        live = {job.id: job for job in found if job.finished_at is None}
        assert set(live) == set(self.jobs)
        runs = {id for id, job in live.items() if job.state == JobState.RUNNING}
        assert runs == {id for id, job in self.jobs.items() if job.claim is not None}

    async def end(self) -> None:
        """When nothing is in the way any more, and time goes on, everything runs."""
        while self.pauses:
            await self.pause(("queue", "task", "key").index(min(self.pauses)))
        for _ in range(400):
            if not self.jobs:
                break
            self.now += 1.0
            await self.store.beat(self.worker, expiry=EXPIRY, now=at(self.now))
            await self.claim(8)
            batch = [ended(job.claim) for job in self.running() if job.claim is not None]
            await self.store.settle(self.worker, batch, now=at(self.now))
            self.jobs = {id: job for id, job in self.jobs.items() if job.claim is None}
        assert self.jobs == {}
        records = [
            r for r in await self.store.limits.listed() if self.mark in f"{r.task} {r.queue}"
        ]
        assert all((r.running, r.parked) == (0, 0) for r in records)


WORDS = (
    *("enqueue", "enqueue", "enqueue", "claim", "claim", "claim", "settle", "settle"),
    *("limit_queue", "limit_tenants", "pause", "release", "vanish", "cancel", "pass_", "pass_"),
)
ACTIONS = st.lists(st.tuples(st.sampled_from(WORDS), st.integers(0, 100)), min_size=8, max_size=40)


@pytest.mark.parametrize(("kind", "examples"), [("sqlite", 50), ("postgresql", 25)])
def test_whatever_happens(kind: str, examples: int, open_stores: OpenStores, share: Share) -> None:
    """The store agrees with the model after every single step, and gets everything done."""
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
        await played.end()
    finally:
        for store in stores:
            await store.close()
