"""Actions on many jobs that go on after their request was answered.

The audit has how far each came, and what stops it, from any process. Whatever runs when the program
ends stops after its batch.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from mutirao.log import log
from mutirao.model.audit.actions import AuditRecord, Came

PATIENCE = 1.0  # seconds in which whoever asked waits for the end
MOST_RUNNING = 4

Progress = Callable[[int, Came], object]
Run = Callable[[Progress], Coroutine[Any, Any, AuditRecord]]


class TooManyActions(Exception):
    """As many actions run in this process as may."""


class Background:
    """The actions that run in this process."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[AuditRecord]] = set()

    async def begin(self, run: Run) -> AuditRecord | int:
        """Begin an action; return what the audit has of it, or its id if it goes on.

        Raises:
            TooManyActions: it was not begun.
        """
        if len(self._tasks) >= MOST_RUNNING:
            raise TooManyActions
        begun, ids = asyncio.Event(), set[int]()

        def progress(id: int, came: Came) -> None:
            ids.add(id)
            begun.set()

        task = asyncio.create_task(run(progress))
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        await _first_of(task, begun)
        if not task.done():
            await asyncio.wait({task}, timeout=PATIENCE)
        return task.result() if task.done() else ids.pop()

    async def aclose(self) -> None:
        """Stop what runs; the audit says so."""
        running = [*self._tasks]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def _ended(self, task: asyncio.Task[AuditRecord]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("an action on many jobs has failed: %s", error)


async def _first_of(task: asyncio.Task[Any], event: asyncio.Event) -> None:
    """Wait until a task has ended or an event is set."""
    waiting = asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()
