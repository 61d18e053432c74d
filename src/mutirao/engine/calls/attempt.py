"""One running attempt, its stall watchdog, and where it goes when it has ended.

Each watched attempt has one timer; others have none. A sign of life only writes a number. The
number is compared when the timer is due, and the timer is then set for the remaining time.
"""

import asyncio
import sys
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextvars import Context
from time import monotonic
from typing import Any, NamedTuple, Protocol

from mutirao.model.jobs.job import Claim, Gives, Job, NewJob, Transaction, Using, Wake
from mutirao.model.jobs.outcome import Outcome


class StallWatch:
    """Detects that one attempt gives no sign of life.

    Parameters:
        seconds: how long it may be silent.
        stalled: called, in the event loop, once it has been silent for longer.
        lead: seconds that may pass before its handler begins.
        clock: the monotonic time, in seconds.
    """

    __slots__ = ("_clock", "_due", "_loop", "_seconds", "_stalled", "_timer")

    def __init__(
        self,
        seconds: float,
        stalled: Callable[[], None],
        lead: float = 0.0,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._seconds, self._stalled, self._clock = seconds, stalled, clock
        self._loop = asyncio.get_running_loop()
        self._due = clock() + seconds + lead
        self._timer = self._loop.call_later(seconds + lead, self.look)

    @property
    def due(self) -> float:
        """The time when the next sign of life is due, by the clock. From any thread."""
        return self._due

    def sign(self) -> None:
        """Note a sign of life. From any thread."""
        self._due = self._clock() + self._seconds

    def begin(self) -> None:
        """Start to count now: the handler is called only now."""
        if not self._timer.cancelled():
            self.sign()
            self._again()

    def look(self) -> None:
        """Report that the attempt stalls, if it does; otherwise look again when it may."""
        if self._clock() >= self._due:
            self._stalled()
        else:
            self._again()

    def stop(self) -> None:
        """Stop watching."""
        self._timer.cancel()

    def _again(self) -> None:
        self._timer.cancel()
        self._timer = self._loop.call_later(max(0.0, self._due - self._clock()), self.look)


class Finished(NamedTuple):
    """An attempt that has ended; the times are monotonic seconds."""

    claim: Claim
    outcome: Outcome
    started: float
    finished: float
    follow_up: NewJob | None
    linked: bool = False


Begin = Callable[[Job, "Running", Gives | Using], Transaction[Any, Any]]


class Running:
    """An attempt between its start and its end. Implements `ports.Attempt`."""

    __slots__ = ("_begin", "_error", "_lend", "arm", "claim", "ended", "informed", "interruption",
                 "kill", "lent", "over", "settled", "started", "stopping", "task", "timer", "watch",
                 "woken")  # fmt: skip

    def __init__(
        self, claim: Claim, begin: Begin, lend: "Callable[[Running], None] | None" = None
    ) -> None:
        """Set the parts; `lend` leaves its slot to other attempts, if it has one."""
        self._begin, self._lend = begin, lend
        self.lent = False  # whether it has left its slot to others
        self.claim = claim
        self.started = monotonic()
        self.ended: float | None = None  # when its call returned, if a thread has noted it
        self.settled = False  # by its own transaction
        self.stopping = False  # whether the worker wants to end
        self.informed = False  # whether the handler knows that it shall end
        self.over = False  # whether its handler has ended
        self.woken: Sequence[Wake] = ()  # lanes to which other jobs returned when it was settled
        self.interruption: Outcome | None = None
        self.task: asyncio.Task[None] | None = None
        self.timer: asyncio.TimerHandle | None = None
        self.arm: Callable[..., None] | None = None  # starts or restarts its timeout
        self.watch: StallWatch | None = None
        self.kill: Callable[[], None] | None = None

    def started_ago(self) -> float:
        """Return the seconds since the handler was started."""
        return monotonic() - self.started

    def begin_now(self) -> None:
        """Restart the attempt's time: its handler is called only now."""
        self.started = monotonic()
        if self.arm is not None and self.timer is not None and not self.timer.cancelled():
            self.arm()
        if self.watch is not None:
            self.watch.begin()

    def note_alive(self) -> None:
        """Note a sign of life. May be called from any thread."""
        if self.watch is not None:
            self.watch.sign()

    def stop_timers(self) -> None:
        """Stop all timeouts: the handler has ended."""
        if self.timer is not None:
            self.timer.cancel()
        if self.watch is not None:
            self.watch.stop()

    def note_error(self, error: BaseException) -> None:
        """Keep the error that has ended the attempt, for middleware and the log."""
        self._error = error

    def error(self) -> BaseException | None:
        """Return the error that has ended the attempt, if it is at hand."""
        return getattr(self, "_error", None)

    def take_error(self) -> BaseException | None:
        """Return that error and forget it: its traceback refers to this attempt."""
        error = self.error()
        if error is not None:
            del self._error
        return error

    def shall_end(self) -> bool:
        """Return whether the handler shall end, and remember that it knows. From any thread."""
        self.informed = self.informed or self.stopping or self.interruption is not None
        return self.informed

    def mark_settled(self, woken: Sequence[Wake] = ()) -> None:
        """Record that the job needs no settling any more. May be called from any thread."""
        self.woken = woken
        self.settled = True

    def lend_slot(self) -> None:
        """Leave the slot to another attempt, as this one only waits."""
        if self._lend is not None and not self.lent:
            self._lend(self)

    def begin(self, job: Job, gives: Gives | Using) -> Transaction[Any, Any]:
        """Open a transaction that completes this attempt's job."""
        return self._begin(job, self, gives)

    def interrupt(self, outcome: Outcome) -> None:
        """End the attempt from outside, with this outcome; only the first interruption counts.

        A coroutine is cancelled and a process killed. A thread cannot be ended: the worker no
        longer waits for the attempt, and its slot is lost until the thread returns.
        """
        if self.interruption is not None:
            return
        self.interruption = outcome
        if self.kill is not None:
            self.kill()
        if self.task is not None:
            self.task.cancel()


def started_task(
    attempt: Coroutine[Any, Any, None], loop: asyncio.AbstractEventLoop, context: Context
) -> asyncio.Task[None]:
    """Return a task that runs an attempt."""
    # An eager task runs a handler that never waits without a pass through the event loop.
    if sys.version_info >= (3, 12):
        return asyncio.Task(attempt, loop=loop, eager_start=True, context=context)
    return loop.create_task(attempt, context=context)


class Settler(Protocol):
    """Takes attempts that have ended, and settles them in the background."""

    @property
    def unsettled(self) -> int:
        """The number of attempts that have ended and are not settled yet."""
        ...

    def pending(self) -> set[tuple[int, int]]:
        """Return (id, run) of those."""
        ...

    def add(self, finished: Finished) -> None:
        """Take an attempt that has ended."""
        ...

    def announce_woken(self, woken: Iterable[Wake]) -> None:
        """Report that other jobs may be due in these lanes."""
        ...

    def note_own(self, finished: Finished, woken: Iterable[Wake]) -> None:
        """Take an attempt that its own transaction has settled; report the lanes that it woke."""
        ...
