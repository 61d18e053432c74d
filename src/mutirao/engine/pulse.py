"""The signs of life of a worker's loops.

A loop gives a sign before it sleeps or calls the store. A loop that is silent for longer than its
limit hangs in a call without a limit: only the worker itself can notice that, and end.
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic

MAX_REST = 5.0  # seconds that a loop may sleep without a sign; longer sleeps are split


async def wait_for(event: asyncio.Event, seconds: float) -> bool:
    """Wait until an event is set, or so long; return whether it is."""
    with suppress(TimeoutError):
        async with asyncio.timeout(max(0.0, seconds)):
            await event.wait()
    return event.is_set()


@dataclass(frozen=True, slots=True)
class Health:
    """The health of a worker.

    Parameters:
        alive: whether it works: it was started, has not ended, and all of its loops run.
        reason: why it does not work, in a sentence; None while it does.
        ages: for each loop, the seconds since its last turn.
        stuck: the number of slots lost to handlers that the worker has given up.
        hears: whether wake-ups reach it, of the database or of a hub; False: it polls until they
            do again; None: it only polls, or does not work.
        unmended: what a broker refuses until somebody mends it, one sentence each, such as a queue
            that is not declared; the rest of the worker works.
    """

    alive: bool
    reason: str | None
    ages: dict[str, float]
    stuck: int = 0
    hears: bool | None = None
    unmended: tuple[str, ...] = ()


class Pulse:
    """The sign of life of one loop. `limit`: the seconds that a turn may take.

    A turn is the time between two signs. May be read from any thread.
    """

    __slots__ = ("_due", "_limit", "_turned_at", "name")

    def __init__(self, name: str, limit: float) -> None:
        self.name, self._limit = name, limit
        self.turn()

    def turn(self) -> None:
        """Give a sign of life: the next one must come within the limit."""
        self._turned_at = monotonic()
        self._due = self._turned_at + self._limit

    async def rest(self, seconds: float, stopping: asyncio.Event | None = None) -> None:
        """Sleep for `seconds`, or until the loop is to end; give signs of life meanwhile."""
        stopping = stopping or asyncio.Event()
        end = monotonic() + seconds
        while not stopping.is_set() and (left := end - monotonic()) > 0:
            await wait_for(stopping, min(left, MAX_REST))
            self.turn()

    async def until(self, event: asyncio.Event) -> None:
        """Wait until an event is set, giving signs of life meanwhile."""
        while not event.is_set():
            await wait_for(event, MAX_REST)
            self.turn()

    def age(self) -> float:
        """Return the seconds since the last turn."""
        return monotonic() - self._turned_at

    def hangs(self) -> bool:
        """Return whether the next turn is overdue."""
        return monotonic() > self._due
