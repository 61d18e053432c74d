"""A store that was slow once: nobody draws from it that the next look has to be far away."""

from __future__ import annotations

import asyncio
from typing import Any

from mutirao import Mutirao
from mutirao.testing import MemoryStore
from tests.integration.worker.kit import working
from tests.support.waiting import soon


class SlowOnce(MemoryStore):
    """Its first answer about the lanes takes long."""

    def __init__(self) -> None:
        super().__init__()
        self.go_on = asyncio.Event()
        self.asked = asyncio.Event()

    def clone(self, connections: int = 1, *, within: float | None = None) -> SlowOnce:
        """The same."""
        return self

    async def lanes(self, *args: Any, **kwargs: Any) -> Any:
        """Answer what was true before it took long."""
        heads = await super().lanes(*args, **kwargs)
        if not self.go_on.is_set():
            self.asked.set()
            await self.go_on.wait()
        return heads


async def test_what_came_meanwhile_starts_soon() -> None:
    """Fifty times the time it took would be most of a minute; nobody notifies here."""
    store = SlowOnce()
    app = Mutirao(store=store)
    begun = asyncio.Event()

    @app.task
    async def step() -> None:
        begun.set()

    async with working(app, poll=0.05):
        await soon(store.asked.wait())
        await step.aenqueue()
        asyncio.get_running_loop().call_later(1.0, store.go_on.set)
        await soon(begun.wait(), deadline=20.0)
