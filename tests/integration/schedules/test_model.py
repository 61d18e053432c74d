"""Schedules against a naive model: random orders, crashes and jumps of the clock in any order.

The model counts ticks by numbers, one after the other. Whatever several schedulers do at the same
moment, and wherever one of them dies, the jobs in the store are those of the model.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime

import pytest
from hypothesis import given, settings, strategies as st

from mutirao.errors import WrongState
from mutirao.model.jobs.job import NewJob
from mutirao.model.jobs.records import JobFilter
from mutirao.model.schedules import schedule_rules
from mutirao.model.schedules.schedule import Amendment, ScheduleFacts
from mutirao.ports import Store
from mutirao_conformance.kit import NOW, at
from mutirao_conformance.schedules import order, plan, scheduled
from tests.integration.conftest import OpenStores
from tests.support.repeats import Share

EVERY, LATE = 10, 60  # seconds
Open = Callable[[], Store]
_names = (f"s{n}" for n in itertools.count())


@dataclass
class Model:
    """A schedule as a child would keep it, in seconds after NOW."""

    catch_up: str
    overlap: str
    limit: int
    until: int
    most: int
    next: float | None = EVERY
    paused: bool = False
    awaiting: bool = False
    live: list[float] = field(default_factory=list)  # the last job's tick or run, while it is
    ended: float = 0
    last: float = 0
    runs: int = 0
    ticks: list[float] = field(default_factory=list)

    def look(self, now: float) -> None:
        """Some scheduler looks; so do others, which makes no difference."""
        if self.paused:
            return
        if self.awaiting and not self.live:
            self.awaiting, self.next = False, self.bounded(max(self.ended, self.last) + EVERY)
        passed = []
        while self.next is not None and self.next <= now:
            passed.append(self.next)
            self.last, self.next = self.next, self.bounded(self.next + EVERY)
        wanted = self.wanted(passed, now)
        if wanted and self.overlap == "after":
            made = [] if self.live else wanted
        else:
            made = [] if self.live and self.overlap == "skip" else wanted
        self.runs += len(made)
        self.ticks += made
        self.live = made[-1:] or self.live
        self.next = None if self.next is None else self.bounded(self.next)
        if wanted and self.overlap == "after" and self.next is not None:
            self.awaiting, self.next = True, None

    def wanted(self, passed: list[float], now: float) -> list[float]:
        """Of the ticks that passed, those that make jobs."""
        if self.catch_up == "all":
            return passed[-self.limit :][: self.most - self.runs]
        on_time = [tick for tick in passed[-1:] if now - tick <= LATE]
        return on_time if self.catch_up == "none" else passed[-1:]

    def bounded(self, tick: float) -> float | None:
        """Return a tick if the schedule has not ended by then."""
        return tick if tick <= self.until and self.runs < self.most else None

    def resume(self, now: float) -> None:
        """Go on with the first tick that is ahead."""
        if not self.paused:
            return
        self.paused = False
        if self.awaiting and not self.live:
            self.awaiting, self.next = False, self.bounded(max(now, self.last) + EVERY)
        while self.next is not None and self.next <= now:
            self.next = self.bounded(self.next + EVERY)

    def run_now(self) -> None:
        """Make a job that belongs to no tick."""
        self.live = [-1]
        if self.overlap == "after" and self.next is not None:
            self.awaiting, self.next = True, None


class Played:
    """A schedule in a store, moved together with its model."""

    def __init__(self, stores: list[Store], model: Model) -> None:
        self.stores, self.model, self.name, self.now = stores, model, next(_names), 0.0
        self.store = stores[0]

    async def begin(self) -> None:
        """Put the schedule."""
        model = self.model
        job = NewJob(task="t", queue=self.name)
        terms = {"catch_up": model.catch_up, "overlap": model.overlap, "max_runs": model.most}
        terms |= {"catch_up_limit": model.limit, "until": at(model.until), "job": job}
        await plan(self.store, scheduled(self.name, seconds=EVERY, **terms))

    async def act(self, action: str, amount: float) -> None:
        """Do something to both."""
        await getattr(self, action)(amount)

    async def pass_(self, seconds: float) -> None:
        """Time goes by, or the clock is put back."""
        self.now += seconds

    async def look(self, _: float) -> None:
        """One scheduler looks at what is due."""
        await self.tick(self.store)
        self.model.look(self.now)

    async def look_together(self, _: float) -> None:
        """Several do so at once."""
        await asyncio.gather(*(self.tick(store) for store in self.stores * 2))
        self.model.look(self.now)

    async def crash(self, _: float) -> None:
        """One dies before its transaction is committed; nothing has happened."""
        with suppress(ZeroDivisionError):
            await self.store.schedules.amend(self.name, _tick_and_die, now=at(self.now))

    async def end_jobs(self, _: float) -> None:
        """Its jobs end."""
        await self.store.cancel(JobFilter(queue=self.name, limit=None), now=at(self.now))
        if self.model.live:
            self.model.live, self.model.ended = [], self.now

    async def pause(self, _: float) -> None:
        """It is paused."""
        await order(self.store, schedule_rules.pause, self.name, self.now)
        self.model.paused = True

    async def resume(self, _: float) -> None:
        """It is resumed."""
        await order(self.store, schedule_rules.resume, self.name, self.now)
        self.model.resume(self.now)

    async def run_now(self, _: float) -> None:
        """Somebody asks for a run."""
        forbidden = self.model.overlap != "allow" and bool(self.model.live)
        try:
            await order(self.store, schedule_rules.run_now, self.name, self.now)
        except WrongState:
            assert forbidden
        else:
            assert not forbidden
            self.model.run_now()

    async def tick(self, store: Store) -> None:
        """Let it tick if the agenda says so."""
        agenda = await store.schedules.agenda(now=at(self.now))
        if self.name in agenda.due:
            assert all(not each.error for each in await store.schedules.tick(9, now=at(self.now)))

    async def check(self) -> None:
        """The jobs in the store are those of the model, and at most one is live if it must."""
        jobs = await self.store.jobs(JobFilter(queue=self.name, limit=None))
        seen = [job.metadata["tick"] for job in jobs if "tick" in job.metadata]
        found = sorted((datetime.fromisoformat(tick) - NOW).total_seconds() for tick in seen)
        assert found == pytest.approx(self.model.ticks, abs=1e-6)
        live = [job for job in jobs if job.finished_at is None]
        if self.model.overlap != "allow":
            assert len(live) == len(self.model.live)


def _tick_and_die(facts: ScheduleFacts) -> Amendment:
    schedule_rules.tick(facts)
    raise ZeroDivisionError


ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(
            [
                "pass_",
                "pass_",
                "look",
                "look",
                "look_together",
                "crash",
                "end_jobs",
                "pause",
                "resume",
                "resume",
                "run_now",
            ]
        ),
        st.one_of(st.integers(0, 25), st.integers(-60, 400), st.floats(0, 12)),
    ),
    max_size=40,
)
MODELS = st.builds(
    Model,
    catch_up=st.sampled_from(["none", "last", "all"]),
    overlap=st.sampled_from(["allow", "skip", "after"]),
    limit=st.integers(1, 5),
    until=st.integers(EVERY, 900),
    most=st.integers(1, 8),
).filter(lambda model: model.catch_up != "all" or model.overlap == "allow")


@pytest.mark.parametrize(("kind", "examples"), [("sqlite", 60), ("postgresql", 60)])
def test_whatever_happens(kind: str, examples: int, open_stores: OpenStores, share: Share) -> None:
    """The store agrees with the model after every single step."""
    opened = open_stores(kind)

    @settings(max_examples=share(examples))
    @given(model=MODELS, actions=ACTIONS)
    def play(model: Model, actions: list[tuple[str, float]]) -> None:
        asyncio.run(_play(opened(), model, actions))

    play()


async def _play(stores: list[Store], model: Model, actions: list[tuple[str, float]]) -> None:
    played = Played(stores, model)
    try:
        await played.begin()
        for action, amount in actions:
            await played.act(action, round(amount, 3))
            await played.check()
        await order(stores[0], schedule_rules.remove, played.name)
    finally:
        for store in stores:
            await store.close()
