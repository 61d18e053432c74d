"""Event loops that a coroutine blocks, and the watch over that of a worker without a heartbeat.

A worker of a database asks its loop with each heartbeat. To a broker a worker lives as long as its
connection, or the thread that extends what it holds: so another thread has to ask its loop.
"""

import asyncio
import threading
from collections.abc import Callable
from time import monotonic

from mutirao.engine.liveness.heart import Heart
from mutirao.engine.pulse import wait_for
from mutirao.errors import WorkerStuck

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
        f"a coroutine has blocked the event loop for {monotonic() - since:.0f} s; what computes"
        " for long belongs into a plain function, or a task with process=True"
    )


class LoopWatch:
    """The watch over the event loop in which it is started.

    Parameters:
        every: seconds after which it is asked again.
        on_stuck: called in the watching thread, once, with the error.
    """

    def __init__(
        self,
        heart: Heart,
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
        """Begin to watch, if there is a limit."""
        if self._limit is not None:
            self._watched = asyncio.get_running_loop()
            self._heart.beat(self._run)

    def stop(self) -> None:
        """Watch no more; from any thread."""
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
        """Have the watched loop set an event."""
        answered, watched = threading.Event(), self._watched
        if watched is not None and not watched.is_closed():
            watched.call_soon_threadsafe(answered.set)
        return answered
