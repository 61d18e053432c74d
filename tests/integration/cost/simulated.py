"""Time that passes only while nothing happens: a worker's idle minute takes a moment.

While the database is asked, and while any event loop has something to do, the clock stands still.
When all loops only wait, it jumps to the moment that the first of them waits for. So what a worker
does in a minute follows from its intervals alone, and not from how busy this machine is.
"""

from __future__ import annotations

import asyncio
import selectors
import sys
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from inspect import iscoroutinefunction, signature
from math import inf
from operator import attrgetter
from threading import Lock
from typing import Any

import pytest

import tests.support.engine  # noqa: F401 (all of it, before `clock` gives it another time)
from mutirao.model.jobs.job import Wake
from mutirao.ports import Notifier, Store
from tests.support.parts import PARTS, PartOf

Events = list[tuple[selectors.SelectorKey, int]]
BUSY_POLL = 0.001  # real seconds between looks whether the others wait as well
MOST_TURNS = 10_000  # of a loop, for the same events and at one moment; beyond that it spins


class Clock:
    """The time of all event loops of a test, and of the engine."""

    def __init__(self) -> None:
        # Ahead of the database's own clock, by which a new job is due: on a busy machine that one
        # had passed this one, and a worker slept until its jobs were due.
        self._began = datetime.now(UTC) + timedelta(hours=1)
        self._elapsed = 0.0
        self._lock = Lock()
        self._asked = 0
        self._loops: set[object] = set()
        self._waiting: dict[object, float] = {}

    def monotonic(self) -> float:
        """Return the seconds since it began. A stand-in for `time.monotonic`."""
        return self._elapsed

    def now(self) -> datetime:
        """Return the same as a moment, which the database is told."""
        return self._began + timedelta(seconds=self._elapsed)

    def new_loop(self) -> asyncio.AbstractEventLoop:
        """Return an event loop that lives in this time."""
        return _Loop(self)

    @contextmanager
    def standing(self) -> Iterator[None]:
        """Let no time pass in the block."""
        with self._lock:
            self._asked += 1
        try:
            yield
        finally:
            with self._lock:
                self._asked -= 1

    def joined(self, loop: object) -> None:
        """Let no time pass from now on while this loop has something to do."""
        with self._lock:
            self._loops.add(loop)

    def left(self, loop: object) -> None:
        """Pay this loop no more attention."""
        with self._lock:
            self._loops.discard(loop)

    def wait(self, loop: object, seconds: float, look: Callable[[float], Events]) -> Events:
        """Return what a loop has got to do, or nothing once its time has come."""
        until = self._elapsed + seconds
        with self._lock:
            self._waiting[loop] = until
        try:
            while not self._come(until):
                if events := look(BUSY_POLL):
                    return events
            return []
        finally:
            with self._lock:
                del self._waiting[loop]

    def _come(self, until: float) -> bool:
        """Tell whether it is that late; jump there if everybody waits, and for nothing earlier."""
        with self._lock:
            if self._asked == 0 and self._loops == self._waiting.keys():
                first = min(self._waiting.values())
                if first == until < inf:
                    self._elapsed = max(self._elapsed, until)
            return self._elapsed >= until


class _Selector(selectors.DefaultSelector):
    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock
        self._last: tuple[float, Events] = (0.0, [])
        self._turns = 0

    def select(self, timeout: float | None = None) -> Events:
        events = super().select(0)
        if not events and (timeout is None or timeout > 0):
            seconds = inf if timeout is None else timeout
            events = self._clock.wait(self, seconds, super().select)
        self._notice(events)
        return events

    def _notice(self, events: Events) -> None:
        """Fail where a loop would turn for ever: time does not pass while it has a reason to."""
        before, self._last = self._last, (self._clock.monotonic(), events)
        self._turns = self._turns + 1 if events and before == self._last else 0
        if self._turns > MOST_TURNS:
            raise RuntimeError(f"the event loop spins: nobody heeds {events}")


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self, clock: Clock) -> None:
        self._clock, self._looks = clock, _Selector(clock)
        super().__init__(self._looks)
        clock.joined(self._looks)

    def time(self) -> float:
        return self._clock.monotonic()

    def close(self) -> None:
        self._clock.left(self._looks)
        super().close()


class Watched:
    """A store: the clock stands still while it is asked, and it is told the clock's time."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock

    def clone(self, connections: int = 1, *, within: float | None = None) -> Watched:
        """Return another handle, watched as well."""
        return Watched(self._store.clone(connections), self._clock)

    def __getattr__(self, name: str) -> Any:
        if name in PARTS:
            return PartOf(self, name)
        method = attrgetter(name)(self._store)
        if not iscoroutinefunction(method):
            return method
        timed = "now" in signature(method).parameters

        async def ask(*args: Any, **kwargs: Any) -> Any:
            with self._clock.standing():
                moment = {"now": self._clock.now()} if timed else {}
                return await method(*args, **kwargs | moment)

        return ask


class Heard:
    """A notifier: the clock stands still until it listens."""

    def __init__(self, notifier: Notifier, clock: Clock) -> None:
        self._notifier, self._clock = notifier, clock

    async def listen(self) -> AsyncGenerator[Wake, None]:
        """Yield what it yields."""
        wakes = self._notifier.listen()
        with self._clock.standing():
            first = await anext(wakes)
        yield first
        async for wake in wakes:
            yield wake


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The time of the engine, and of every event loop that is made from now on."""
    clock = Clock()
    monkeypatch.setattr(asyncio.events, "new_event_loop", clock.new_loop)
    for name, module in list(sys.modules.items()):
        if name.startswith("mutirao.") and getattr(module, "monotonic", None) is time.monotonic:
            monkeypatch.setattr(module, "monotonic", clock.monotonic)
    return clock
