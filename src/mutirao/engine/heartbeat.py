"""The worker's sign of life, from a thread and a connection of its own.

A handler that keeps the event loop or the interpreter busy cannot delay it, so that a worker is
taken for gone only when it is. It also notices that the loop is blocked, and then gives back the
jobs that wait behind that handler: nobody else could.
"""

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from math import inf
from time import monotonic

from mutirao.engine.settings import WorkerSettings
from mutirao.errors import StoreUnavailable
from mutirao.job import Beat, NewWorker
from mutirao.ports import Store

log = logging.getLogger("mutirao")


class Heartbeat:
    """Beats until stopped, and registers the worker anew when it was taken for gone.

    Parameters:
        store: a handle that only this thread uses.
        stuck: asked before each beat for the number of lost slots.
        ping: asks the event loop to call back; the answer may take as long as a handler blocks it.
        unstarted: takes the claimed jobs that have not started away from the worker.
        on_beat: called in this thread with every answer.
        on_reborn: called in this thread with the new id after the worker was taken for gone.
    """

    def __init__(
        self,
        store: Store,
        settings: WorkerSettings,
        identity: NewWorker,
        worker: int,
        stuck: Callable[[], int],
        ping: Callable[[Callable[[], None]], None],
        unstarted: Callable[[], list[tuple[int, int]]],
        on_beat: Callable[[Beat], None],
        on_reborn: Callable[[int], None],
    ) -> None:
        self._store, self._settings, self._identity = store, settings, identity
        self._worker = worker
        self._stuck, self._ping, self._unstarted = stuck, ping, unstarted
        self._on_beat, self._on_reborn = on_beat, on_reborn
        self._answered = True
        self._last = monotonic()
        self._unbroken_since = -inf
        self._stop: Callable[[], object] = lambda: None
        self._ready = threading.Event()
        self._ended: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, name="mutirao-heartbeat", daemon=True)

    def start(self) -> None:
        """Start beating."""
        self._thread.start()
        self._ready.wait()

    async def stop(self) -> None:
        """Stop beating and wait until that has ended."""
        self._stop()
        with suppress(Exception):  # whoever awaits `ended` hears of it
            await self.ended()

    async def ended(self) -> None:
        """Wait until beating has ended; raise what ended it, if that was an error."""
        await asyncio.shield(asyncio.wrap_future(self._ended))

    def may_judge_others(self) -> bool:
        """Whether this worker may take others for gone.

        After the database was away, or nobody could write to it, everybody's heartbeat looks old,
        so others get one expiry's time to beat again before they are judged.
        """
        now, expiry = monotonic(), self._settings.expiry
        return now - self._unbroken_since >= expiry and now - self._last < expiry

    def _run(self) -> None:
        try:
            self._ended.set_result(asyncio.run(self._beat_until_stopped()))
        except Exception as error:  # noqa: BLE001 - whoever awaits `ended` hears of it
            self._ended.set_exception(error)

    async def _beat_until_stopped(self) -> None:
        loop, stopped = asyncio.get_running_loop(), asyncio.Event()
        self._stop = lambda: loop.is_closed() or loop.call_soon_threadsafe(stopped.set)
        self._ready.set()
        try:
            while not stopped.is_set():
                went_well = await self._beat()
                wait = self._settings.heartbeat if went_well else self._settings.heartbeat / 5
                with suppress(TimeoutError):
                    async with asyncio.timeout(wait):
                        await stopped.wait()
        finally:
            await self._store.close()

    async def _beat(self) -> bool:
        lifetime = self._settings.lifetime
        try:
            # A connection that only hangs is as good as none, and a new one may get through.
            async with asyncio.timeout(self._settings.expiry):
                beat = await self._store.beat(self._worker, expiry=lifetime, stuck=self._stuck())
                if not beat.alive:
                    await self._register_anew()
                await self._relieve()
        except (StoreUnavailable, TimeoutError) as gone:
            log.warning(
                "no heartbeat: %s", str(gone) or f"no answer in {self._settings.expiry:g} s"
            )
            self._unbroken_since = inf
            return False
        before, self._last = self._last, monotonic()
        if self._unbroken_since == inf:
            self._unbroken_since = self._last
            log.warning("the database is back; the heart beats again")
        elif self._last - before > lifetime:
            self._unbroken_since = self._last
        self._on_beat(beat)
        return True

    async def _relieve(self) -> None:
        """Give back what waits behind a handler that has blocked the loop since the last beat."""
        if self._answered:
            self._answered = False
            self._ping(self._answer)
        elif jobs := self._unstarted():
            log.warning("the event loop is blocked; giving back %s jobs that wait", len(jobs))
            await self._store.release(jobs)

    def _answer(self) -> None:
        self._answered = True

    async def _register_anew(self) -> None:
        log.error(
            "worker %s was taken for gone and its jobs given to others; registering anew",
            self._worker,
        )
        self._worker = await self._store.register(self._identity, expiry=self._settings.lifetime)
        self._on_reborn(self._worker)
