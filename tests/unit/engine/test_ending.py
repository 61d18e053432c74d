"""A worker ends though one of its loops misses that it was cancelled."""

from __future__ import annotations

import asyncio

from mutirao import Mutirao
from mutirao.testing import MemoryStore
from tests.support.waiting import until


class Deaf(MemoryStore):
    """A store whose driver loses the first cancellation of a lease, as old drivers may."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = asyncio.Event()
        self.missed = 0

    def clone(self, connections: int = 1, *, within: float | None = None) -> Deaf:
        """The same, so that the worker meets it."""
        return self

    async def lease(self, *args: object, **options: object) -> bool:
        """Wait for ever, but once go on as if nothing had been said."""
        self.asked.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.missed += 1
            if self.missed > 1:
                raise
        return False


async def test_a_cancellation_that_is_lost() -> None:
    """The worker says it again."""
    store = Deaf()
    app = Mutirao(store=store)

    @app.task
    def idle() -> None: ...

    async with asyncio.timeout(20):
        async with app.worker():
            await until(store.asked.is_set)
    assert store.missed >= 1
