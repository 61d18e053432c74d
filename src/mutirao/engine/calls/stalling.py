"""The watchdog of attempts: those of a task with a `stall_timeout` have to give signs of life.

One timer for each such attempt, and none for others. A sign costs the writing of a number: it is
compared when the timer is due, and the timer is set for the rest.
"""

import asyncio
from collections.abc import Callable
from time import monotonic


class StallWatch:
    """The watch over the signs of life of one attempt.

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
        """When the next sign of life is due, by the clock. From any thread."""
        return self._due

    def sign(self) -> None:
        """Note a sign of life. From any thread."""
        self._due = self._clock() + self._seconds

    def begin(self) -> None:
        """Start to count now: the handler has only just been called."""
        if not self._timer.cancelled():
            self.sign()
            self._again()

    def look(self) -> None:
        """Tell that the attempt stalls, if it does; look again when it may, otherwise."""
        if self._clock() >= self._due:
            self._stalled()
        else:
            self._again()

    def stop(self) -> None:
        """Watch no more."""
        self._timer.cancel()

    def _again(self) -> None:
        self._timer.cancel()
        self._timer = self._loop.call_later(max(0.0, self._due - self._clock()), self.look)
