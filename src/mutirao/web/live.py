"""Reads values that many pages show once for all of them, and adds their age.

Fifty open tabs cause no more queries than one: a reading is shared for some seconds, and while it
is being read, other readers wait for it.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")
REFRESH = 5  # seconds between two reads of an open page
MOST_KEPT = 200
OFTEN = 20  # a slow reading may take one twentieth of the time


class KeptReading(NamedTuple):
    """A value, when it was read by the clock of the readings, and how long that took."""

    value: Any
    at: float
    took: float


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
        # A reader that leaves does not cancel the reading of the others.
        return await asyncio.shield(self._task(name, read))

    async def soon(
        self, name: str, read: Callable[[], Awaitable[T]], fresh_for: float, within: float
    ) -> T | None:
        """Return a reading that takes long: the last one, or None, while it is read again.

        A slow reading is done less often: it is fresh for twenty times as long as it took.

        Parameters:
            within: seconds that are waited for it.
        """
        kept = self._kept.get(name)
        last: T | None = None if kept is None else kept.value
        if kept is not None and self._clock() - kept.at < max(fresh_for, OFTEN * kept.took):
            return last
        done, _ = await asyncio.wait({self._task(name, read)}, timeout=within)
        return done.pop().result() if done else last

    def _task(self, name: str, read: Callable[[], Awaitable[T]]) -> "asyncio.Task[T]":
        task = self._under_way.get(name)
        if task is None or task.get_loop() is not asyncio.get_running_loop():
            task = asyncio.ensure_future(self._read(name, read))
            task.add_done_callback(_look_at)
            self._under_way[name] = task
        return task

    def age(self, name: str) -> float:
        """Return the seconds since something was read; 0 if it never was."""
        kept = self._kept.get(name)
        return 0.0 if kept is None else self._clock() - kept.at

    def forget(self) -> None:
        """Read everything again: something was changed."""
        self._changes += 1
        self._kept.clear()
        self._under_way.clear()

    async def _read(self, name: str, read: Callable[[], Awaitable[T]]) -> T:
        began, started = self._changes, self._clock()
        try:
            value = await read()
            if began == self._changes:  # otherwise it may be from before the change
                if len(self._kept) >= MOST_KEPT:
                    self._kept.clear()
                self._kept[name] = KeptReading(value, self._clock(), self._clock() - started)
            return value
        finally:
            if began == self._changes:
                self._under_way.pop(name, None)


def _look_at(task: asyncio.Task[Any]) -> None:
    """Retrieve the error of a reading: all that waited for it may have left."""
    if not task.cancelled():
        task.exception()
