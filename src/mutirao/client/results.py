"""Waits for the ends of jobs, many at once, by one listener per event loop.

With a notifier, an end is notified, and also checked every few seconds because a notification may
be lost. Without one, it is polled, less and less often.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from mutirao.aio import Backoff, ByLoop, end_tasks, wait_for
from mutirao.errors import ResultTimeout, StoreUnavailable, UnknownJob
from mutirao.log import log
from mutirao.ports import Notifier, Store

if TYPE_CHECKING:
    from mutirao.model.jobs.records import Ending

CHECK_EVERY = 5.0  # seconds between checks if ends are notified
MIN_CHECK_INTERVAL, MAX_CHECK_INTERVAL = 0.01, 1.0  # seconds between checks otherwise


class Endings:
    """Waits for the ends of an application's jobs; `notifier`, if any, announces them."""

    def __init__(self, store: Callable[[], Store], notifier: Notifier | None) -> None:
        self._store, self._notifier = store, notifier
        self._watches = ByLoop[_Watch]()

    async def wait(self, id: int, timeout: float | None) -> Ending:
        """Wait until a job has ended, and return how.

        Raises:
            ResultTimeout: it has not ended within `timeout` seconds.
            UnknownJob: there is no such job.
        """
        [ending] = await _known(self._store(), id)
        if ending.state is not None:
            return ending
        watch = self._watches.here(lambda: _Watch(self._store, self._notifier))
        try:
            async with asyncio.timeout(timeout):
                return await watch.wait(id)
        except TimeoutError:
            raise ResultTimeout(
                f"job {id} has not finished within {timeout:g} s; ask again, or see what it waits"
                " for: `mutirao show`"
            ) from None


async def _known(store: Store, id: int) -> list[Ending]:
    found = await store.endings([id])
    if not found:
        raise UnknownJob(
            f"There is no job {id}. It was not committed yet, or it was pruned from history since."
        )
    return found


class _Watch:
    """All waits in one event loop. Its task runs while there are any."""

    def __init__(self, store: Callable[[], Store], notifier: Notifier | None) -> None:
        self._store, self._notifier = store, notifier
        self._waiting: dict[int, set[asyncio.Future[Ending]]] = {}
        self._look = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def wait(self, id: int) -> Ending:
        future: asyncio.Future[Ending] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(id, set()).add(future)
        self._look.set()
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="mutirao-endings")
        try:
            return await future
        finally:
            await self._leave(id, future)

    async def _leave(self, id: int, future: asyncio.Future[Ending]) -> None:
        others = self._waiting.get(id, set())
        others.discard(future)
        if not others:
            self._waiting.pop(id, None)
        if not self._waiting and self._task is not None:
            task, self._task = self._task, None
            await end_tasks(task)

    async def _run(self) -> None:
        listening = asyncio.create_task(self._listen())
        looking = asyncio.create_task(self._check_again())
        try:
            done, _ = await asyncio.wait((listening, looking), return_when=asyncio.FIRST_EXCEPTION)
            for each in done:
                each.result()
        except Exception as error:  # noqa: BLE001 (raised to those who wait)
            self._fail(error)
        finally:
            await end_tasks(listening, looking)

    def _fail(self, error: Exception) -> None:
        self._task = None
        for future in [each for waiting in self._waiting.values() for each in waiting]:
            if not future.done():
                future.set_exception(error)

    async def _listen(self) -> None:
        backoff = Backoff()
        while self._notifier is not None:
            try:
                async for _ in self._notifier.listen():
                    backoff.reset()
                    self._look.set()
            except StoreUnavailable as gone:
                wait = backoff.next()
                log.warning("cannot listen for ends: %s; again in %.1f s", gone, wait)
                await asyncio.sleep(wait)

    async def _check_again(self) -> None:
        asked: set[int] = set()
        pause = MIN_CHECK_INTERVAL
        while True:
            self._look.clear()
            new = self._waiting.keys() - asked
            with suppress(StoreUnavailable):  # the listener logs it, and we check again
                if new:
                    await self._store().await_ends(new)
                    asked = (asked | new) & self._waiting.keys()
                    pause = MIN_CHECK_INTERVAL
                for ending in await self._store().endings(list(self._waiting)):
                    self._resolve(ending)
            pause = min(2 * pause, MAX_CHECK_INTERVAL) if self._notifier is None else CHECK_EVERY
            await wait_for(self._look, pause)

    def _resolve(self, ending: Ending) -> None:
        if ending.state is not None:
            for future in self._waiting.get(ending.id, ()):
                if not future.done():
                    future.set_result(ending)
