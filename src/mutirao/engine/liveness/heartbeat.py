"""Sends a worker's heartbeats from a thread and a connection of their own.

A handler that blocks the worker's event loop cannot delay it, so a worker is considered gone only
when it really is. The heartbeat also detects that the loop is blocked, and then releases the jobs
that wait behind that handler, because no other thread could. It ends when the loop has ended,
because the worker serves nothing without it. A handler that never releases the GIL does delay it;
each beat reports by how much.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from contextvars import Context, copy_context
from dataclasses import dataclass
from math import inf
from time import monotonic
from typing import Any

from mutirao.aio import wait_for
from mutirao.engine.loops import LoopHealth, LoopRetry
from mutirao.engine.settings import WorkerSettings
from mutirao.errors import WorkerFailed
from mutirao.log import log
from mutirao.model.jobs.job import Beat, NewWorker
from mutirao.ports import Store

Beating = Callable[[], Coroutine[Any, Any, None]]


class HeartbeatThread:
    """A thread that lives as long as a loop beats in it; the next heartbeat starts another."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._beating = 0
        self._loop: asyncio.AbstractEventLoop | None = None

    def beat(self, body: Beating) -> "Future[None]":
        """Run a body in the thread, in a copy of this context; return a future of its end."""
        future: Future[None] = Future()
        context = copy_context()
        with self._lock:
            self._beating += 1
            self._loop = self._loop or _loop_in_thread()
            self._loop.call_soon_threadsafe(self._begin, body, context, future)
        return future

    def _begin(self, body: Beating, context: Context, future: "Future[None]") -> None:
        task = asyncio.get_running_loop().create_task(body(), context=context)
        task.add_done_callback(lambda task: self._ended(task, future))

    def _ended(self, task: "asyncio.Task[None]", future: "Future[None]") -> None:
        with self._lock:
            self._beating -= 1
            if not self._beating and self._loop is not None:
                self._loop.stop()
                self._loop = None
        if task.cancelled():
            future.cancel()
        elif (error := task.exception()) is not None:
            future.set_exception(error)
        else:
            future.set_result(None)


def _loop_in_thread() -> asyncio.AbstractEventLoop:
    """Start a thread; return its event loop, which is closed once it is stopped."""
    made: Future[asyncio.AbstractEventLoop] = Future()

    def run() -> None:
        with asyncio.Runner() as runner:
            loop = runner.get_loop()
            made.set_result(loop)
            loop.run_forever()

    threading.Thread(target=run, name="mutirao-heartbeat", daemon=True).start()
    return made.result()


DELAY_DECAY = 0.99  # factor by which the reported delay decreases with each beat


@dataclass(frozen=True, slots=True)
class WorkerView:
    """The worker as its heartbeat sees it. All functions are called in the heartbeat's thread.

    Parameters:
        stuck: returns the number of lost slots.
        runs: returns whether the worker's event loop still runs.
        ping: asks the event loop to call back, which may take as long as a handler blocks it.
        blocked: called with the monotonic time since when the loop has not answered; raises if it
            will never answer.
        unstarted: takes from the worker the claimed jobs that have not started.
        rests: returns whether it has no job, and only gets jobs through others.
        on_beat: called with every answer, and with the monotonic time until which the worker lives.
        on_return: called with the first answer after the database was away.
        on_reborn: called with the new id after the worker was considered gone.
    """

    stuck: Callable[[], int]
    runs: Callable[[], bool]
    ping: Callable[[Callable[[], None]], None]
    blocked: Callable[[float], None]
    unstarted: Callable[[], list[tuple[int, int]]]
    rests: Callable[[], bool]
    on_beat: Callable[[Beat, float], None]
    on_return: Callable[[], None]
    on_reregistered: Callable[[int], None]


class Heartbeat:
    """The loop that beats until stopped, and registers the worker again if it was considered gone.

    `store`: a handle that only this thread uses. `heart`: the thread, if others beat in it, too.
    `duty`: a duty; each beat returns whether another worker holds it.
    """

    def __init__(
        self,
        store: Store,
        settings: WorkerSettings,
        identity: NewWorker,
        worker: int,
        body: WorkerView,
        heart: HeartbeatThread | None = None,
        duty: str | None = None,
    ) -> None:
        self._heart = heart or HeartbeatThread()
        self._store, self._settings, self._identity = store, settings, identity
        self._worker, self._body, self._duty = worker, body, duty
        self._answered = True
        self._life, self._stirred = settings.lifetime, False  # as the last beat returned it
        self._last = self._asked_at = monotonic()
        self._due = self._last + settings.heartbeat
        self._late = 0.0  # seconds; the longest delay of a beat, decreasing
        self._unbroken_since = -inf
        self._trouble = LoopRetry(
            "no heartbeat",
            "the heartbeat works again",
            longest=settings.heartbeat / 5,
            patience=settings.patience,
        )
        self._stopping = False
        self._wake: Callable[[], object] = lambda: None
        self._ready = threading.Event()
        self._ended: Future[None] = Future()
        self.pulse = LoopHealth("heartbeat", settings.turn_limit)

    def start(self) -> None:
        """Start beating."""
        self._ended = self._heart.beat(self._beat_until_stopped)
        self._ready.wait()

    async def stop(self) -> None:
        """Stop beating, and wait until that has ended."""
        self._stopping = True
        self._wake()
        with suppress(Exception):  # `ended` raises it to those who await it
            await self.ended()

    def stir(self) -> None:
        """Beat now if the last beat announced a resting worker: it has a job. From any thread."""
        if self._life > self._settings.lifetime and not self._stirred:
            self._stirred = True
            self._wake()

    async def ended(self) -> None:
        """Wait until beating has ended; raise the error that ended it, if any."""
        await asyncio.shield(asyncio.wrap_future(self._ended))

    def age(self) -> float:
        """Return the seconds since the last beat was written. From any thread."""
        return monotonic() - self._last

    def may_judge_others(self) -> bool:
        """Return whether this worker may consider others gone.

        After the database was unavailable or not writable, every heartbeat looks old, so the other
        workers get the time of one expiry to beat again.
        """
        now, expiry = monotonic(), self._settings.expiry
        known_for = self._life + self._settings.rescue_every
        return now - self._unbroken_since >= expiry and now - self._last < known_for

    async def _beat_until_stopped(self) -> None:
        loop, woken = asyncio.get_running_loop(), asyncio.Event()
        self._wake = lambda: loop.is_closed() or loop.call_soon_threadsafe(woken.set)
        self._ready.set()
        try:
            while self._body.runs() and not self._stopping:
                self.pulse.turn()
                woken.clear()
                wait = await self._beat()
                await wait_for(woken, wait)
                await wait_for(woken, self._rest())
        finally:
            await self._store.close()

    def _rest(self) -> float:
        """Return the seconds by which the next beat can be delayed while the worker rests."""
        if self._stirred or self._unbroken_since == inf or not self._body.rests():
            return 0.0
        self._due += self._settings.rest
        return self._settings.rest

    async def _beat(self) -> float:
        """Beat once; return the seconds to the next one.

        A resting worker beats later, and so announces a longer lifetime of its row. If it gets a
        job meanwhile, `stir` corrects that at once.
        """
        before, started = self._life, monotonic()
        self._life = self._settings.lifetime + self._settings.rest  # a job that comes now stirs
        if self._stirred or not self._body.rests():
            self._life = self._settings.lifetime
        self._stirred = False
        try:
            beat = await self._store.beat(
                self._worker,
                expiry=self._life,
                stuck=self._body.stuck(),
                late=self._late,
                duty=self._duty,
            )
            if not beat.alive:
                await self._register_anew()
            await self._release_if_blocked()
        except WorkerFailed:
            raise
        except Exception as error:  # noqa: BLE001 (raised if it does not pass)
            self._unbroken_since = inf
            return self._trouble.met(error)
        self._note_beat(started, before)
        self._body.on_beat(beat, started + self._life)
        return self._settings.heartbeat

    def _note_beat(self, started: float, life: float) -> None:
        """Record a beat that began at `started`; `life`: the lifetime from the previous one."""
        before, self._last = self._last, monotonic()
        self._late = max(self._late * DELAY_DECAY, started - self._due)
        self._due = self._last + self._settings.heartbeat
        self._trouble.over()
        if self._unbroken_since == inf or self._last - before > life:
            self._unbroken_since = self._last
            self._body.on_return()

    async def _release_if_blocked(self) -> None:
        """Release the jobs behind a handler that has blocked the loop since the last beat."""
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
            "worker %s was taken for gone and its jobs given to others; registering again",
            self._worker,
        )
        self._worker = await self._store.register(self._identity, expiry=self._settings.lifetime)
        self._body.on_reregistered(self._worker)
