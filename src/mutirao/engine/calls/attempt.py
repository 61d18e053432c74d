"""One running attempt, and what can happen to it while its handler runs."""

import asyncio
import sys
from collections.abc import Callable, Coroutine, Sequence
from contextvars import Context
from time import monotonic
from typing import Any

from mutirao.engine.calls.stalling import StallWatch
from mutirao.model.jobs.job import Claim, Gives, Job, Transaction, Wake
from mutirao.model.jobs.outcome import Outcome
from mutirao.model.jobs.states import OutcomeKind

Begin = Callable[[Job, "Running", Gives], Transaction[Any, Any]]


class Running:
    """An attempt between its start and its end. Implements `ports.Attempt`."""

    __slots__ = ("_begin", "_death", "_lend", "arm", "claim", "ended", "interruption", "kill",
                 "lent", "over", "settled", "started", "stopping", "task", "timer", "told", "watch",
                 "woken")  # fmt: skip

    def __init__(
        self, claim: Claim, begin: Begin, lend: "Callable[[Running], None] | None" = None
    ) -> None:
        """Set the parts; `lend` leaves its slot to others, if it has one."""
        self._begin, self._lend = begin, lend
        self.lent = False  # whether it has left its slot to others
        self.claim = claim
        self.started = monotonic()
        self.ended: float | None = None  # when its call returned, if a thread has told
        self.settled = False  # by its own transaction
        self.stopping = False  # whether the worker wants to end
        self.told = False  # whether the handler has learned that it shall end
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
        """Restart the attempt's time: its handler has only just been called."""
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
        """Let no timeout expire any more: the handler has ended."""
        if self.timer is not None:
            self.timer.cancel()
        if self.watch is not None:
            self.watch.stop()

    def note_death(self, outcome: Outcome, error: BaseException) -> None:
        """Keep the error, for the log, if the attempt's job dies of it."""
        if outcome.kind is OutcomeKind.DEAD:
            self._death = error

    def take_death(self) -> BaseException | None:
        """Return what the job died of, and forget it: its traceback leads to this attempt again."""
        error = getattr(self, "_death", None)
        if error is not None:
            del self._death
        return error

    def shall_end(self) -> bool:
        """Return whether the handler shall end, and remember that it was told. From any thread."""
        self.told = self.told or self.stopping or self.interruption is not None
        return self.told

    def mark_settled(self, woken: Sequence[Wake] = ()) -> None:
        """Record that the job needs no settling any more. May be called from any thread."""
        self.woken = woken
        self.settled = True

    def lend_slot(self) -> None:
        """Leave the slot to another attempt, as this one only waits."""
        if self._lend is not None and not self.lent:
            self._lend(self)

    def begin(self, job: Job, gives: Gives) -> Transaction[Any, Any]:
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
