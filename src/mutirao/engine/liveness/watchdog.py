"""Detects hanging loops, lost slots and blocked event loops: a worker either works or ends.

The heartbeat of a database worker asks its event loop at each beat. For a broker a worker lives as
long as its connection, or the thread that extends its deliveries: so another thread has to ask its
event loop.
"""

import asyncio
import threading
from collections.abc import Callable, Sequence
from time import monotonic

from mutirao.aio import wait_for
from mutirao.engine.calls.handler_damage import RefusedStarts, mend_standard_streams
from mutirao.engine.dispatch.slots import Slots
from mutirao.engine.liveness.heartbeat import HeartbeatThread
from mutirao.engine.loops import LoopHealth
from mutirao.errors import WorkerFailed, WorkerStuck

WATCH_EVERY = 1.0  # seconds between checks of loops and slots


class Watch:
    """Raises an error to end a worker that no longer works.

    Parameters:
        pulses: returns the pulses of its loops.
        limit: how long all slots may be lost, in seconds; None: forever.
        starts: counters of the threads and child processes that could not be started.
    """

    def __init__(
        self,
        slots: Slots,
        pulses: Callable[[], Sequence[LoopHealth]],
        limit: float | None,
        starts: Sequence[RefusedStarts] = (),
    ) -> None:
        self._slots, self._pulses, self._limit = slots, pulses, limit
        self._starts = starts
        self._stuck_since: float | None = None
        self._suspected: set[str] = set()

    async def run(self, pulse: LoopHealth, every: float) -> None:
        """Check every `every` seconds.

        Raises:
            WorkerFailed: a loop hangs.
            WorkerStuck: all slots have been lost for longer than the limit.
            HandlersCannotStart: no child process, or no thread, could be started for a while.
        """
        while True:
            await pulse.rest(every)
            self.look()

    def look(self) -> None:
        """Check once; raises what `run` raises."""
        self._look_at_loops()
        self._look_at_slots()
        mend_standard_streams()
        for each in self._starts:
            each.check()

    def _look_at_loops(self) -> None:
        """Check each hanging loop twice: after a stall of the process all of them seem to hang.

        By the second check the healthy ones have given a sign of life.
        """
        hanging = {pulse.name: pulse.age() for pulse in self._pulses() if pulse.hangs()}
        if found := hanging.keys() & self._suspected:
            names = ", ".join(f"{name} ({hanging[name]:.0f} s)" for name in sorted(found))
            raise WorkerFailed(f"these loops of the worker hang: {names}")
        self._suspected = set(hanging)

    def _look_at_slots(self) -> None:
        if not self._slots.all_stuck():
            self._stuck_since = None
            return
        now = monotonic()
        self._stuck_since = self._stuck_since or now
        if self._limit is not None and now - self._stuck_since >= self._limit:
            raise WorkerStuck(
                f"all {self._slots.stuck} slots were lost for {self._limit:g} s to handlers"
                " that do not end; give them timeouts of their own, or process=True"
            )


# When all coroutines are past their timeouts, in monotonic seconds. From any thread.
OverAt = Callable[[], float]


def stuck_since(since: float, over_at: OverAt, limit: float | None) -> WorkerStuck | None:
    """Return the error of a worker whose event loop has not answered for too long; None: wait.

    Parameters:
        since: when it was asked, in monotonic seconds.
        limit: seconds after that, and after the timeouts; None: forever.
    """
    if limit is None or monotonic() < max(since, over_at()) + limit:
        return None
    return WorkerStuck(
        f"a coroutine has blocked the event loop for {monotonic() - since:.0f} s; move"
        " CPU-bound code to a plain function, or to a task with process=True"
    )


class LoopWatch:
    """Watches, from another thread, the event loop in which it is started.

    Parameters:
        every: seconds after which it is asked again.
        on_stuck: called in the watching thread, once, with the error.
    """

    def __init__(
        self,
        heart: HeartbeatThread,
        over_at: OverAt,
        every: float,
        limit: float | None,
        on_stuck: Callable[[WorkerStuck], None],
    ) -> None:
        self._heart, self._over_at, self._every = heart, over_at, every
        self._limit, self._on_stuck = limit, on_stuck
        self._watched: asyncio.AbstractEventLoop | None = None
        self._own: asyncio.AbstractEventLoop | None = None
        self._ends = asyncio.Event()

    def start(self) -> None:
        """Start watching, if there is a limit."""
        if self._limit is not None:
            self._watched = asyncio.get_running_loop()
            self._heart.beat(self._run)

    def stop(self) -> None:
        """Stop watching; from any thread."""
        self._watched, own = None, self._own
        if own is not None and not own.is_closed():
            own.call_soon_threadsafe(self._ends.set)

    async def _run(self) -> None:
        self._own = asyncio.get_running_loop()
        answered, asked_at = self._ask(), monotonic()
        while self._watched is not None and self._watched.is_running():
            await wait_for(self._ends, self._every)
            if answered.is_set():
                answered, asked_at = self._ask(), monotonic()
            elif (error := stuck_since(asked_at, self._over_at, self._limit)) is not None:
                self._on_stuck(error)
                return

    def _ask(self) -> threading.Event:
        """Make the watched loop set an event."""
        answered, watched = threading.Event(), self._watched
        if watched is not None and not watched.is_closed():
            watched.call_soon_threadsafe(answered.set)
        return answered
