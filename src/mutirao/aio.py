"""What every room needs of asyncio: waits with a limit, ends of tasks, growing pauses."""

import asyncio
import random
from contextlib import suppress

from mutirao.model.jobs.retry import grown


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
