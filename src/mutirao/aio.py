"""What every room needs of asyncio: waits, ends of tasks, growing pauses, a value for each loop."""

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, TypeVar
from weakref import ref

from mutirao.model.jobs.retry import grown

T = TypeVar("T")


async def first_of(*events: asyncio.Event, seconds: float | None = None) -> None:
    """Wait until one of several events is set, or so many seconds."""
    waiting = [asyncio.create_task(event.wait()) for event in events]
    await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    for each in waiting:
        each.cancel()


async def wait_for(event: asyncio.Event, seconds: float) -> bool:
    """Wait until an event is set, or so long; return whether it is."""
    with suppress(TimeoutError):
        async with asyncio.timeout(max(0.0, seconds)):
            await event.wait()
    return event.is_set()


CANCEL_AGAIN_AFTER = 0.5  # seconds


async def end_tasks(*tasks: asyncio.Task[None]) -> None:
    """Cancel tasks and wait until they are over and their connections are closed.

    Cancels repeatedly: before Python 3.12 `asyncio.wait_for`, which drivers use, loses a
    cancellation that arrives at the same moment as its result.
    """
    running = {task for task in tasks if not task.done()}
    while running:
        for task in running:
            task.cancel()
        _, running = await asyncio.wait(running, timeout=CANCEL_AGAIN_AFTER)


class ByLoop(Generic[T]):
    """A value for each event loop. Those of closed loops go when another loop gets one.

    Weak keys alone would keep them: most values know their loop. A program without a loop of its
    own has another one for each call.

    Parameters:
        over: called with the values of loops that are closed, or gone.
    """

    def __init__(self, over: Callable[[T], object] = lambda _: None) -> None:
        self._over = over
        self._values: dict[ref[asyncio.AbstractEventLoop], T] = {}

    def __len__(self) -> int:
        """Return the number of loops that have a value."""
        return len(self._values)

    def get(self) -> T | None:
        """Return the running loop's value; None: it has none."""
        return self._values.get(ref(asyncio.get_running_loop()))

    def here(self, make: Callable[[], T]) -> T:
        """Return the running loop's value, which `make` makes at first."""
        found = self.get()
        if found is None:
            self.forget_closed()
            found = self._values[ref(asyncio.get_running_loop(), self._end)] = make()
        return found

    def pop(self) -> T | None:
        """Forget the running loop's value, and return it; None: it has none."""
        return self._values.pop(ref(asyncio.get_running_loop()), None)

    def values(self) -> list[T]:
        """Return the values of all loops."""
        return list(self._values.values())

    def forget_closed(self) -> None:
        """Forget the values of closed loops."""
        for each in list(self._values):  # other threads may have loops of their own
            loop = each()
            if loop is None or loop.is_closed():
                self._end(each)

    def _end(self, loop: "ref[asyncio.AbstractEventLoop]") -> None:
        value = self._values.pop(loop, None)
        if value is not None:
            self._over(value)


FIRST_WAIT, MAX_WAIT = 0.05, 5.0  # seconds


class Backoff:
    """The waits of one loop, at most `longest` seconds each; `reset` after a success."""

    def __init__(self, longest: float = MAX_WAIT) -> None:
        self._longest = longest
        self._failures = 0

    @property
    def failing(self) -> bool:
        """Whether there was a failure, and no success since."""
        return self._failures > 0

    def reset(self) -> bool:
        """Start again from the shortest wait; return whether there had been failures."""
        had, self._failures = self._failures > 0, 0
        return had

    def next(self) -> float:
        """Return the seconds to wait after another failure."""
        wait = grown(FIRST_WAIT, self._failures, self._longest)
        self._failures += 1
        return wait * random.uniform(0.5, 1.0)
