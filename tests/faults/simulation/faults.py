"""One process's handle on the store: what it is asked may go wrong in every way.

It fails before or after it did what was asked, answers late or never, and does late what nobody
waits for any more.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from math import inf
from operator import attrgetter
from typing import Any

from mutirao.errors import (
    MutiraoError,
    SchemaTooNew,
    StoreBusy,
    StoreError,
    StoreGone,
    StoreRefused,
    StoreUnavailable,
)
from mutirao.model.jobs.job import Gives, Job, Transaction, Using, Wake
from mutirao.model.jobs.outcome import Settlement
from mutirao.ports import Attempt
from tests.faults.simulation.store import FleetStore
from tests.faults.simulation.world import Process
from tests.support.parts import PARTS, PartOf

REFUSED = "\N{SKULL}"  # in the text of an error: no database takes it
WAKING = ("release", "rescue", "retire", "lose", "settle")
CLAIMING = ("claim", "claim_these")
LATE, LATEST_CLAIM = 8.0, 40.0  # seconds after which a server may do what nobody waits for
Fault = str
# What may become of a call, and how often, relative to each other.
FAULTS: dict[Fault, float] = {
    "unavailable": 6,
    "busy": 3,
    "lost answer": 6,
    "late": 4,
    "answers late": 4,
    "hangs": 3,
    "hangs, and happens": 3,
    "happens when nobody waits": 3,
    "statement": 0.5,
    "defect": 0.3,
    "gone": 0.1,
    "schema": 0.1,
}


ERRORS: dict[Fault, type[Exception]] = {
    "unavailable": StoreUnavailable,
    "busy": StoreBusy,
    "statement": StoreError,
    "defect": KeyError,
    "gone": StoreGone,
    "schema": SchemaTooNew,
}


class Unread(Exception):
    """The answer of a claim that has a row which nobody can read."""


class Weather:
    """How likely it is, by now, that a call goes wrong. Shared by all processes."""

    def __init__(self) -> None:
        self.share = 0.0  # of the calls that go wrong
        self.away_until = -inf  # nothing is answered but by an error
        self.silent_until = -inf  # nothing is answered
        self.locked: set[int] = set()  # jobs whose rows somebody else has locked
        self.unreadable: set[int] = set()  # jobs of which no claim's answer can be read
        self.claimed_late: dict[int, float] = {}  # when jobs were claimed, and nobody heard of it
        self.takes = 0.0  # seconds for each call
        self.calls: Counter[str] = Counter()  # how often each was called


class Handle:
    """A `mutirao.ports.Store` that fails; `within` is the limit of a call, in seconds."""

    def __init__(
        self,
        store: FleetStore,
        weather: Weather,
        process: Process,
        notify: Callable[[Wake], None],
        within: float | None = None,
    ) -> None:
        self._store, self._weather, self._process = store, weather, process
        self._notify, self._within = notify, within
        self._under_way: list[asyncio.Future[None]] = []

    def clone(self, connections: int = 1, *, within: float | None = None) -> Handle:
        """Another handle of the same process."""
        return Handle(self._store, self._weather, self._process, self._notify, within)

    def cut(self) -> None:
        """Make what is under way fail."""
        for call in self._under_way:
            if not call.done():
                call.set_exception(StoreBusy("it was cut"))

    async def close(self) -> None:
        """Nothing is open."""

    async def check(self) -> None:
        """The schema fits, if it can be asked."""
        await self._call("answered")

    def transaction(
        self, job: Job, attempt: Attempt, *, gives: Gives | Using
    ) -> Transaction[Any, Any]:
        """The store's; it does not fail by itself."""
        return self._store.transaction(job, attempt, gives=gives)

    def __getattr__(self, name: str) -> Any:
        if name in PARTS:
            return PartOf(self, name)

        async def call(*args: Any, **kwargs: Any) -> Any:
            return await self._call(name, *args, **kwargs)

        return call

    async def _call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        world, weather = self._process.world, self._weather
        weather.calls[name] += 1
        await asyncio.sleep(weather.takes)
        if name == "settle":
            self._refuse(args[1])
        if name == "unlocked":
            return await self._store.unlocked(args[0]) - weather.locked
        if world.now < weather.away_until:
            raise StoreUnavailable("the database is away")
        fault = self._fault(name, args)
        if fault is None:
            return await self._do(name, *args, **kwargs)
        return await self._fail(fault, name, *args, **kwargs)

    def _fault(self, name: str, args: tuple[Any, ...]) -> Fault | None:
        world, weather = self._process.world, self._weather
        if world.now < weather.silent_until:
            return world.random.choice(("hangs", "hangs, and happens"))
        if name == "settle" and any(each.id in weather.locked for each in args[1]):
            return "hangs"
        if name == "settle" and weather.locked and world.random.random() < 0.01:
            return "busy"
        if world.random.random() >= weather.share:
            return None
        return world.random.choices(list(FAULTS), list(FAULTS.values()))[0]

    async def _fail(self, fault: Fault, name: str, *args: Any, **kwargs: Any) -> Any:
        world = self._process.world
        if fault in ERRORS:
            raise ERRORS[fault](fault)
        if fault == "happens when nobody waits":
            later = world.random.uniform(0, LATEST_CLAIM if name == "claim" else LATE)
            world.after(later, lambda: self._do_alone(name, *args, **kwargs))
        elif fault in ("lost answer", "hangs, and happens"):
            await self._do(name, *args, **kwargs)
            if fault == "lost answer":
                raise StoreUnavailable("the answer was lost")
        elif fault == "late":
            await self._wait(world.random.uniform(0, 3))
            return await self._do(name, *args, **kwargs)
        elif fault == "answers late":
            done = await self._do(name, *args, **kwargs)
            await self._wait(world.random.uniform(0, 4))
            return done
        return await self._wait(inf)

    async def _do(self, name: str, *args: Any, **kwargs: Any) -> Any:
        done = await attrgetter(name)(self._store)(*args, **kwargs)
        if name in CLAIMING and any(each.id in self._weather.unreadable for each in done):
            raise Unread("the claim's answer cannot be read")
        if name in WAKING and done:
            self._notify(Wake())
        return done

    def _do_alone(self, name: str, *args: Any, **kwargs: Any) -> None:
        """Do what was asked without anybody who waits: the server had not heard that it is over."""
        steps = self._do(name, *args, **kwargs)
        try:
            steps.send(None)
        except StopIteration as over:
            if name == "claim":
                now = self._process.world.now
                self._weather.claimed_late |= {claim.id: now for claim in over.value}
            return
        except (MutiraoError, Unread):  # there is nobody to tell
            return
        raise AssertionError(f"the store waited for something in {name}")

    async def _wait(self, seconds: float) -> None:
        """Wait for an answer, but no longer than the limit."""
        loop = asyncio.get_running_loop()
        limit = inf if self._within is None else self._within
        answer: asyncio.Future[None] = loop.create_future()
        self._under_way.append(answer)
        timer = loop.call_later(min(seconds, limit, 10_000.0), _answer, answer, seconds > limit)
        try:
            await answer
        finally:
            timer.cancel()
            self._under_way.remove(answer)

    def _refuse(self, settlements: list[Settlement]) -> None:
        if any(REFUSED in (each.outcome.error or "") for each in settlements):
            raise StoreRefused("this is no text")


def _answer(answer: asyncio.Future[None], too_late: bool) -> None:
    if answer.done():
        return
    if too_late:
        answer.set_exception(StoreBusy("the connection was given up"))
    else:
        answer.set_result(None)
