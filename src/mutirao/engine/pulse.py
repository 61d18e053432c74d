"""Whether the loops of a worker turn.

A loop says how long it may be silent before it rests or asks the store. One that is silent for
longer hangs in something that has no limit: nobody but the worker itself can notice, and end.
"""

import asyncio
from dataclasses import dataclass
from time import monotonic

REST = 5.0  # seconds that a loop may sleep without a sign; longer sleeps are made of several


@dataclass(frozen=True, slots=True)
class Health:
    """How a worker is.

    Parameters:
        alive: whether it serves: it was started, has not ended, and all of its loops turn.
        reason: why it does not, in a sentence; None while it does.
        ages: for each loop the seconds since its last turn.
        stuck: slots lost to handlers that nobody waits for any more.
    """

    alive: bool
    reason: str | None
    ages: dict[str, float]
    stuck: int = 0


class Pulse:
    """The sign of life of one loop. `limit`: the seconds it may take for a turn.

    A turn is what comes between two signs. May be read from any thread.
    """

    __slots__ = ("_due", "_limit", "_turned_at", "name")

    def __init__(self, name: str, limit: float) -> None:
        self.name, self._limit = name, limit
        self.turn()

    def turn(self) -> None:
        """Give a sign: the next one comes within the limit."""
        self._turned_at = monotonic()
        self._due = self._turned_at + self._limit

    async def rest(self, seconds: float) -> None:
        """Sleep, giving signs all the while."""
        end = monotonic() + seconds
        while (left := end - monotonic()) > 0:
            await asyncio.sleep(min(left, REST))
            self.turn()

    def age(self) -> float:
        """Return the seconds since the last turn."""
        return monotonic() - self._turned_at

    def hangs(self) -> bool:
        """Whether the next turn should have come."""
        return monotonic() > self._due
