"""Virtual time, and the processes that live in it.

Each process has event loops of its own: one that is frozen or killed does nothing any more, to the
instruction. Time jumps from one event to the next.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context
from datetime import UTC, datetime, timedelta
from heapq import heappop, heappush
from itertools import count
from math import inf
from random import Random
from typing import Any

BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)


def here() -> Loop:
    """Return the loop that runs."""
    loop: Any = asyncio.get_running_loop()
    assert isinstance(loop, Loop)
    return loop


class Loop:
    """An event loop of one process, on the world's time: what tasks and timers need of one."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self._ready: deque[asyncio.Handle] = deque()
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._numbers = count()
        self._itself: Any = self

    def time(self) -> float:
        """Return the virtual time, in seconds."""
        return self.process.world.now

    def call_soon(
        self, callback: Any, *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        """Have something called in the next turn."""
        handle = asyncio.Handle(callback, args, self._itself, context)
        self._ready.append(handle)
        return handle

    call_soon_threadsafe = call_soon

    def call_later(
        self, delay: float, callback: Any, *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Have something called so many seconds later."""
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Any, *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Have something called at a time."""
        timer = asyncio.TimerHandle(when, callback, args, self._itself, context)
        heappush(self._timers, (when, next(self._numbers), timer))
        return timer

    def create_future(self) -> asyncio.Future[Any]:
        """Return a future of this loop."""
        return asyncio.Future(loop=self._itself)

    def create_task(self, coro: Any, **options: Any) -> asyncio.Task[Any]:
        """Run a coroutine."""
        return asyncio.Task(coro, loop=self._itself, **options)

    def get_debug(self) -> bool:
        """It is not looked for slow callbacks."""
        return False

    def is_running(self) -> bool:
        """It is, as long as its process."""
        return self.process.alive

    def is_closed(self) -> bool:
        """Only with its process."""
        return not self.process.alive

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Fail: whatever is told here was seen to by nobody."""
        self.process.world.complaints.append(f"{context.get('message')}: {context}")

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """It is passed over when its time has come."""

    def next_at(self) -> float:
        """Return when it has something to do; inf if never."""
        if self._ready:
            return self.process.world.now
        timers = self._timers
        while timers and timers[0][2].cancelled():
            heappop(timers)
        return timers[0][0] if timers else inf

    def turn(self) -> None:
        """Do what is to be done now, once."""
        now, timers, ready = self.process.world.now, self._timers, self._ready
        while timers and timers[0][0] <= now:
            timer = heappop(timers)[2]
            if not timer.cancelled():
                ready.append(timer)
        asyncio._set_running_loop(self._itself)
        try:
            for _ in range(len(ready)):
                handle = ready.popleft()
                if not handle.cancelled():
                    handle._run()
        finally:
            asyncio._set_running_loop(None)


class Process:
    """A process: its event loops, and whether they run."""

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name = world, name
        self.loops = [Loop(self), Loop(self)]
        self.frozen_until = -inf
        self.clock_is_off = 0.0  # seconds
        self.alive = True

    @property
    def main(self) -> Loop:
        """The loop of its main thread."""
        return self.loops[0]

    @property
    def heart(self) -> Loop:
        """The loop of the thread that beats."""
        return self.loops[1]

    def run(self, body: Coroutine[Any, Any, None], on_end: Callable[[BaseException | None], None]
            ) -> None:  # fmt: skip
        """Run a coroutine in its main loop; `on_end` is called with what it raised."""

        def ended(task: asyncio.Task[None]) -> None:
            on_end(None if task.cancelled() else task.exception())

        self.main.create_task(body).add_done_callback(ended)

    def die(self) -> None:
        """End as by SIGKILL: no line of its code runs any more."""
        self.alive = False
        for loop in self.loops:
            for task in asyncio.all_tasks(loop._itself):
                task._log_destroy_pending = False  # type: ignore[attr-defined]


class World:
    """What exists, and what time it is. All that happens follows from the seed."""

    def __init__(self, seed: int) -> None:
        self.now = 0.0
        self.random = Random(seed)
        self.processes: list[Process] = []
        self.dead: list[
            Process
        ] = []  # kept, so that no line of theirs runs when they are collected
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()
        self.turns = 0
        self.complaints: list[str] = []  # of event loops

    def moment(self) -> datetime:
        """Return the time by the database's clock."""
        return BEGINNING + timedelta(seconds=self.now)

    def spawn(self, name: str) -> Process:
        """Make a process."""
        self.processes.append(Process(self, name))
        return self.processes[-1]

    def bury(self, process: Process) -> None:
        """Let a process be gone."""
        process.die()
        self.processes.remove(process)
        self.dead.append(process)

    def at(self, moment: float, event: Callable[[], None]) -> None:
        """Have something happen at a time."""
        heappush(self._events, (max(moment, self.now), next(self._numbers), event))

    def after(self, seconds: float, event: Callable[[], None]) -> None:
        """Have something happen later."""
        self.at(self.now + seconds, event)

    def run(self, until: float) -> None:
        """Let time pass."""
        while True:
            loops = self._next_loops()
            at = loops[0][0] if loops else inf
            if self._events and self._events[0][0] <= at:
                at = self._events[0][0]
                loops = []
            if at > until:
                self.now = until
                return
            self.now = max(self.now, at)
            if not loops:
                heappop(self._events)[2]()
                continue
            loop = self.random.choice(loops)[1] if len(loops) > 1 else loops[0][1]
            loop.turn()
            self.turns += 1

    def _next_loops(self) -> list[tuple[float, Loop]]:
        """Return the loops that are next, any of which may be the first."""
        now, earliest, found = self.now, inf, list[tuple[float, Loop]]()
        for process in self.processes:
            frozen = process.frozen_until
            for loop in process.loops:
                at = now if loop._ready else loop.next_at()
                if at < now:
                    at = now
                if at < frozen:
                    at = frozen
                if at < earliest:
                    earliest, found = at, [(at, loop)]
                elif at == earliest < inf:
                    found.append((at, loop))
        return found
