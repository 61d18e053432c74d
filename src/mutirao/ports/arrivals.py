"""What comes for a consumer, in order, until it ends or breaks: how all transports receive."""

import asyncio
from collections import deque
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


class Arrivals(deque[T]):
    """What has come, and was not taken yet.

    Attributes:
        broken: why nothing comes any more; `take` raises it once nothing is left.
        ended: whether nothing comes any more, as was wished.
    """

    def __init__(self) -> None:
        super().__init__()
        self.broken: Exception | None = None
        self.ended = False
        self._arrived = asyncio.Event()

    def put(self, *those: T) -> None:
        """Add what has come."""
        self.extend(those)
        self.notify()

    def notify(self) -> None:
        """Have `take` look again: something came, ended or broke."""
        self._arrived.set()

    async def take(self, most: int) -> list[T]:
        """Wait for what comes; return up to `most`, and nothing if it has ended.

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
        """Wait for what comes, for so long; return it, or None. Raises what `take` does."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                return next(iter(await self.take(1)), None)
        return None
