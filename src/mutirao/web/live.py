"""What many pages show alike is read once for all of them, and says how old it is.

Fifty open tabs ask the database no more than one: within its time a reading is shared, and while
it is being read, whoever else wants it waits for it.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")
REFRESH = 5  # seconds between two looks of an open page
MOST_KEPT = 200


class KeptReading(NamedTuple):
    """What was read, and when by the clock of the readings."""

    value: Any
    at: float


class Readings:
    """The readings of a process, each shared for some seconds.

    Parameters:
        clock: seconds that only grow.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._kept: dict[str, KeptReading] = {}
        self._under_way: dict[str, asyncio.Task[Any]] = {}
        self._changes = 0

    async def get(self, name: str, read: Callable[[], Awaitable[T]], fresh_for: float = 2.0) -> T:
        """Return a reading that is at most `fresh_for` seconds old; raise as `read` does."""
        kept = self._kept.get(name)
        if kept is not None and self._clock() - kept.at < fresh_for:
            found: T = kept.value
            return found
        task = self._under_way.get(name)
        if task is None or task.get_loop() is not asyncio.get_running_loop():
            task = asyncio.ensure_future(self._read(name, read))
            task.add_done_callback(_look_at)
            self._under_way[name] = task
        # Whoever leaves does not take the reading away from the others.
        return await asyncio.shield(task)

    def age(self, name: str) -> float:
        """Return the seconds since something was read; 0 if it never was."""
        kept = self._kept.get(name)
        return 0.0 if kept is None else self._clock() - kept.at

    def forget(self) -> None:
        """Read everything anew: something was changed."""
        self._changes += 1
        self._kept.clear()
        self._under_way.clear()

    async def _read(self, name: str, read: Callable[[], Awaitable[T]]) -> T:
        began = self._changes
        try:
            value = await read()
            if began == self._changes:  # otherwise it may be from before the change
                if len(self._kept) >= MOST_KEPT:
                    self._kept.clear()
                self._kept[name] = KeptReading(value, self._clock())
            return value
        finally:
            if began == self._changes:
                self._under_way.pop(name, None)


def _look_at(task: asyncio.Task[Any]) -> None:
    """Look at the error of a reading: everybody who waited for it may have left."""
    if not task.cancelled():
        task.exception()
