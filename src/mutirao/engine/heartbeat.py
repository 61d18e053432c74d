"""The worker's sign of life, from a thread and a connection of its own.

A handler that keeps the event loop busy cannot delay it, so that a worker is taken for gone only
when it is. It also notices that the loop is blocked, and then gives back the jobs that wait behind
that handler: nobody else could. It ends when the loop has ended: nobody would do what it stands
for. A handler that never lets go of the interpreter does delay it; how much is told with each beat.
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from time import monotonic

from mutirao.engine.logs import log
from mutirao.engine.pulse import Pulse
from mutirao.engine.settings import WorkerSettings
from mutirao.engine.trouble import Trouble
from mutirao.errors import WorkerFailed
from mutirao.job import Beat, NewWorker
from mutirao.ports import Store

FADING = 0.99  # with each beat, of what is told of beats that came late


@dataclass(frozen=True, slots=True)
class Body:
    """What the heartbeat knows of its worker. All are called in the heartbeat's thread.

    Parameters:
        stuck: returns the number of lost slots.
        runs: whether the worker's event loop has not ended.
        ping: asks the event loop to call back; the answer may take as long as a handler blocks it.
        blocked: called with the monotonic time since when it has not answered; raises when it never
            will.
        unstarted: takes the claimed jobs that have not started away from the worker.
        on_beat: called with every answer, and until when, in monotonic seconds, the worker lives.
        on_return: called with the first answer after the database was away.
        on_reborn: called with the new id after the worker was taken for gone.
    """

    stuck: Callable[[], int]
    runs: Callable[[], bool]
    ping: Callable[[Callable[[], None]], None]
    blocked: Callable[[float], None]
    unstarted: Callable[[], list[tuple[int, int]]]
    on_beat: Callable[[Beat, float], None]
    on_return: Callable[[], None]
    on_reborn: Callable[[int], None]


class Heartbeat:
    """Beats until stopped, and registers the worker anew when it was taken for gone.

    `store`: a handle that only this thread uses.
    """

    def __init__(
        self,
        store: Store,
        settings: WorkerSettings,
        identity: NewWorker,
        worker: int,
        body: Body,
    ) -> None:
        self._store, self._settings, self._identity = store, settings, identity
        self._worker, self._body = worker, body
        self._answered = True
        self._last = self._asked_at = monotonic()
        self._late = 0.0  # seconds: the longest that a beat came late, fading
        self._unbroken_since = -inf
        self._trouble = Trouble(
            "no heartbeat",
            "the heart beats again",
            longest=settings.heartbeat / 5,
            patience=settings.patience,
        )
        self._stop: Callable[[], object] = lambda: None
        self._ready = threading.Event()
        self._ended: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, name="mutirao-heartbeat", daemon=True)
        self.pulse = Pulse("heartbeat", settings.turn_limit)

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
            while self._body.runs() and not stopped.is_set():
                self.pulse.turn()
                wait = await self._beat()
                with suppress(TimeoutError):
                    async with asyncio.timeout(wait):
                        await stopped.wait()
        finally:
            await self._store.close()

    async def _beat(self) -> float:
        """Beat once; return the seconds to the next one."""
        lifetime, started = self._settings.lifetime, monotonic()
        try:
            beat = await self._store.beat(
                self._worker, expiry=lifetime, stuck=self._body.stuck(), late=self._late
            )
            if not beat.alive:
                await self._register_anew()
            await self._relieve()
        except WorkerFailed:
            raise
        except Exception as error:  # noqa: BLE001 (raised where it does not pass)
            self._unbroken_since = inf
            return self._trouble.met(error)
        self._note_beat(started, lifetime)
        self._body.on_beat(beat, started + lifetime)
        return self._settings.heartbeat

    def _note_beat(self, started: float, lifetime: float) -> None:
        before, self._last = self._last, monotonic()
        self._late = max(self._late * FADING, started - before - self._settings.heartbeat)
        self._trouble.over()
        if self._unbroken_since == inf or self._last - before > lifetime:
            self._unbroken_since = self._last
            self._body.on_return()

    async def _relieve(self) -> None:
        """Give back what waits behind a handler that has blocked the loop since the last beat."""
        if self._answered:
            self._answered, self._asked_at = False, monotonic()
            self._body.ping(self._answer)
            return
        self._body.blocked(self._asked_at)
        if jobs := self._body.unstarted():
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
        self._body.on_reborn(self._worker)
