"""Runs commands on all jobs of a filter in the background, a few at once.

The audit has the progress of each, for any process; those of this process end with it, as stopped.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any

from mutirao.log import log

MOST_AT_ONCE = 4
GRACE = 5.0  # seconds that a batch has for its end, once the program ends


class Background:
    """The background tasks of a dashboard."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[Any]] = set()
        self._is_closing = False

    def is_closing(self) -> bool:
        """Return whether the program ends: all running commands stop after their batch."""
        return self._is_closing

    @property
    def is_full(self) -> bool:
        """Whether as much runs as may."""
        return len(self._running) >= MOST_AT_ONCE

    @property
    def is_idle(self) -> bool:
        """Whether nothing runs."""
        return not self._running

    def start(self, work: Coroutine[Any, Any, Any]) -> None:
        """Run a command in the background; the audit has its progress; errors are logged, too."""
        task = asyncio.ensure_future(work)
        self._running.add(task)
        task.add_done_callback(self._end)

    async def all_done(self) -> None:
        """Wait until nothing runs."""
        while self._running:
            await asyncio.wait(self._running)

    async def aclose(self) -> None:
        """Stop what runs after its batch, and wait for that; within it, if that takes long."""
        self._is_closing = True
        if self._running:
            await asyncio.wait(self._running, timeout=GRACE)
        for task in self._running:
            task.cancel()
        await self.all_done()

    def _end(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("an action on many jobs has failed", exc_info=error)
