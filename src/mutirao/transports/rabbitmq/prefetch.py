"""Changes how many deliveries a consumer may hold, while no message is on its way to it.

AMQP 0.9.1 cannot change the prefetch of a consumer. So it grows by further consumers of the same
channel, and shrinks by cancelling them. RabbitMQ gives back what is on its way to a consumer that
is cancelled, and counts that as a delivery. Each such message is taken for one that ended its
worker, and runs without others (`engine/brokers/redelivered.py`). When a consumer was cancelled to
grow, 150 to 660 of 4,000 messages came back in every third drain. Such a drain made 110 to 330 a
second in place of 13,000 (RabbitMQ 3.10.8). A consumer that holds all that it may, or to which
nothing has come for a while, has nothing on its way.
"""

import asyncio
from collections.abc import Callable
from math import inf
from time import monotonic
from typing import Protocol

QUIET = 0.1  # seconds without a delivery, after which none is on its way
LONGEST_STOP = 1.0  # seconds for which a stop waits for that: others acknowledge meanwhile


class Channel(Protocol):
    """What is needed of the consumer whose prefetch this is."""

    async def consume(self, prefetch: int) -> str:
        """Begin one more consumer of the queue; return its tag."""
        ...

    async def cancel(self, tag: str) -> None:
        """Cancel one."""
        ...


class Prefetch:
    """The consumers of one queue on one channel, and their sizes.

    Parameters:
        channel: begins and cancels them.
        held: returns how many deliveries are held.
        latest: returns the tag of the latest delivery.
        on_failure: called with the error of a shrinking that failed.
    """

    def __init__(
        self,
        channel: Channel,
        held: Callable[[], int],
        latest: Callable[[], int],
        on_failure: Callable[[Exception], None],
    ) -> None:
        self._channel, self._held, self._latest = channel, held, latest
        self._on_failure = on_failure
        self._sizes: dict[str, int] = {}  # by the consumer's tag, the oldest first
        self._wanted = 0
        self._shrinking: asyncio.Task[None] | None = None

    @property
    def tags(self) -> list[str]:
        """The tags of its consumers."""
        return list(self._sizes)

    async def resize(self, prefetch: int) -> None:
        """Grow at once, or shrink once nothing is on its way."""
        self._wanted = prefetch
        if self._excess() > 0 and self._shrinking is None:
            self._shrinking = asyncio.create_task(self._shrink())
            self._shrinking.add_done_callback(self._shrunk)
        await self._grow()

    async def stop(self) -> None:
        """Cancel all, once nothing is on its way or that has lasted too long."""
        self.leave()
        await self._until_nothing_comes(LONGEST_STOP)
        for tag in self.tags:
            await self._channel.cancel(tag)

    def leave(self) -> None:
        """Shrink no more."""
        if self._shrinking is not None:
            self._shrinking.cancel()

    def _excess(self) -> int:
        return sum(self._sizes.values()) - self._wanted

    async def _grow(self) -> None:
        if (more := -self._excess()) > 0:
            self._sizes[await self._channel.consume(more)] = more

    async def _shrink(self) -> None:
        while self._excess() > 0:
            await self._until_nothing_comes()
            if self._excess() > 0:  # it may have grown meanwhile
                tag = self.tags[-1]
                await self._channel.cancel(tag)
                del self._sizes[tag]  # only now: a stop in between has to cancel it
                await self._grow()

    def _shrunk(self, task: asyncio.Task[None]) -> None:
        self._shrinking = None
        if not task.cancelled() and isinstance(error := task.exception(), Exception):
            self._on_failure(error)

    async def _until_nothing_comes(self, longest: float = inf) -> None:
        end = monotonic() + longest
        while self._held() < sum(self._sizes.values()) and monotonic() < end:
            before = self._latest()
            await asyncio.sleep(QUIET)
            if self._latest() == before:
                return
