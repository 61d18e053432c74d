"""The pausing of schedules by handlers of a worker."""

import asyncio
from functools import partial

from mutirao.engine.calls.outcomes import shortened
from mutirao.errors import WrongState
from mutirao.model.schedules import schedule_rules
from mutirao.ports import Store


class Pauser:
    """Pauses schedules through the worker's store. Made in the worker's event loop."""

    def __init__(self, store: Store) -> None:
        self._store, self._loop = store, asyncio.get_running_loop()

    def pause(self, name: str, reason: str) -> None:
        """Pause a schedule, from a handler's thread, which waits until that is written.

        Raises:
            UnknownSchedule: there is none of that name.
            WrongState: it is called in the event loop, which it would block.
        """
        try:
            here = asyncio.get_running_loop()
        except RuntimeError:
            here = None
        if here is self._loop:
            raise WrongState("a coroutine must not wait here; use `await job.schedule.apause()`")
        asyncio.run_coroutine_threadsafe(self.apause(name, reason), self._loop).result()

    async def apause(self, name: str, reason: str) -> None:
        """Pause a schedule, from a coroutine.

        Raises:
            UnknownSchedule: there is none of that name.
        """
        pause = partial(schedule_rules.pause, name=name, reason=shortened(reason))
        await self._store.amend_schedule(name, pause)
