"""A queue of received items that ends or breaks: all transports receive through it."""

import asyncio
from collections import deque
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


class Arrivals(deque[T]):
    """Received items that were not taken yet.

    Attributes:
        broken: why nothing comes any more; `take` raises it once nothing is left.
        ended: whether nothing comes any more because that was requested.
    """

    def __init__(self) -> None:
        super().__init__()
        self.broken: Exception | None = None
        self.ended = False
        self._arrived = asyncio.Event()

    def put(self, *those: T) -> None:
        """Add received items."""
        self.extend(those)
        self.notify()

    def notify(self) -> None:
        """Make `take` check again: an item came, or this ended or broke."""
        self._arrived.set()

    async def take(self, most: int) -> list[T]:
        """Wait for items; return up to `most`, and nothing if this has ended.

        Raises:
            Exception: `broken`.
        """
        while not self:
            if self.broken is not None:
                raise self.broken
            if self.ended:
                return []
            self._arrived.clear()
            await self._arrived.wait()
        return [self.popleft() for _ in range(min(most, len(self)))]

    async def next_within(self, seconds: float) -> T | None:
        """Wait up to `seconds` for an item; return it, or None. Raises what `take` does."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                return next(iter(await self.take(1)), None)
        return None
