"""One worker: its loops, put together, started and stopped in order.

Order of stopping: claim no more, give back what has not started, let handlers finish within the
grace period, interrupt the rest, write every outcome, retire. Each step needs only the later ones.
"""

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from time import monotonic
from typing import Any

from mutirao.engine import outcomes
from mutirao.engine.completer import Completer
from mutirao.engine.dispatcher import Dispatcher
from mutirao.engine.executor import Executor
from mutirao.engine.heartbeat import Heartbeat
from mutirao.engine.limiter import Limiter
from mutirao.engine.maintenance import Housekeeping, keep
from mutirao.engine.processes import Processes, find_task
from mutirao.engine.producer import Producer
from mutirao.engine.progress import Board
from mutirao.engine.running import Running
from mutirao.engine.scheduler import Scheduler
from mutirao.engine.settings import WorkerSettings
from mutirao.engine.threads import Threads
from mutirao.errors import ConfigurationError, StoreUnavailable
from mutirao.job import Beat, Claim, Job, NewWorker, Outcome, Transaction, Wake
from mutirao.limit import Rule
from mutirao.middleware import AttemptMiddleware
from mutirao.ports import Notifier, Store
from mutirao.schedule import Schedule
from mutirao.task import Task

log = logging.getLogger("mutirao")

CANCEL_AGAIN = 0.5  # seconds
LEAST_PATIENCE = 5.0  # seconds to write what has ended, however short the grace period is


class Worker:
    """Runs jobs in the running event loop. Starting and stopping twice is harmless."""

    def __init__(
        self,
        store: Store,
        notifier: Notifier | None,
        tasks: Mapping[str, Task[..., Any]],
        middleware: Sequence[AttemptMiddleware],
        settings: WorkerSettings,
        version: str,
        declared: Callable[[], Sequence[Schedule]],
        limits: Callable[[], Sequence[Rule]] = tuple,
    ) -> None:
        """`declared` returns the schedules in the code, or raises what is wrong with them.

        `limits` does so of the limits.
        """
        self.settings = settings
        self.failure: BaseException | None = None
        self.ended = asyncio.Event()  # stopped, or failed
        self._store, self._tasks = store, tasks
        self._identity = _identity(settings, version)
        self._id = 0
        self._threads = Threads(self._slot_came_back)
        self._processes = Processes(self._threads)
        self._board = Board(store)
        executor = Executor(tasks, middleware, self._threads, self._processes, self._board.tell)
        self._completer = Completer(
            store,
            lambda: self._id,
            settings.batch,
            settings.linger,
            on_waiting=self._expect,
            on_written=self._look_again,
            on_woken=self._wake,
        )
        self._dispatcher = Dispatcher(
            settings, executor, self._completer, self._threads, self._begin
        )
        self._producer = Producer(
            store, notifier, settings, tasks, lambda: self._id, self._dispatcher
        )
        self._declared, self._limits = declared, limits
        self._scheduler: Scheduler | None = None
        self._heartbeat: Heartbeat | None = None
        self._loops: dict[str, asyncio.Task[None]] = {}
        self._stopping: asyncio.Task[None] | None = None
        self._hurried = asyncio.Event()

    @property
    def id(self) -> int:
        """The worker's id in the store; 0 before it started."""
        return self._id

    async def start(self) -> None:
        """Check the schema and the tasks, register, and begin to claim.

        Raises:
            SchemaError: the tables do not fit; nothing was started.
            ConfigurationError: a task cannot work as it is; nothing was started.
            InvalidJob: nor can the job of a schedule.
        """
        if self._loops or self.ended.is_set():
            return
        try:
            self._check_tasks()
            scheduler = self._scheduler = self._make_scheduler()
            fair = {name: task.options.fair_by for name, task in self._tasks.items()}
            limiter = Limiter(self._store, self._limits(), fair, self._identity.name)
            await self._store.check()
            await limiter.declare()
            await scheduler.declare()
            self._id = await self._store.register(self._identity, expiry=self.settings.lifetime)
        except BaseException:
            await self._store.close()
            raise
        self._heartbeat = self._start_heartbeat()
        house = Housekeeping(self._store, self.settings, self._heartbeat.may_judge_others)
        self._spawn("heartbeat", self._heartbeat.ended())
        self._spawn("completer", self._completer.run())
        self._spawn("producer", self._producer.run())
        self._spawn("listener", self._producer.listen())
        self._spawn("schedules", scheduler.run())
        self._spawn("progress", self._board.run())
        self._spawn("limits", limiter.run())
        for duty in house.duties():
            self._spawn(duty.name, keep(self._store, duty, lambda: self._id))
        log.info("worker %s (%s) started", self._id, self._identity.name)

    async def stop(self) -> None:
        """Stop gracefully; a second call waits for the first one."""
        if self._stopping is None:
            self._stopping = asyncio.create_task(self._stop())
        await asyncio.shield(self._stopping)

    def take_no_more(self) -> None:
        """Claim and start no further job; `stop` does the rest."""
        self._producer.stop()
        self._dispatcher.close()

    def hurry(self) -> None:
        """Give running handlers no more time: the grace period is over."""
        self._hurried.set()

    async def _stop(self) -> None:
        if self._loops:
            end = monotonic() + self.settings.grace
            self.take_no_more()
            await self._wait_for("producer", until=end)
            await self._give_back_unstarted()
            await self._finish_running()
            self._completer.close()
            await self._wait_for("completer", until=end)
            await self._end_loops()
            await self._retire()
            await self._store.close()
            log.info("worker %s stopped", self._id)
        self.ended.set()

    async def _give_back_unstarted(self) -> None:
        with suppress(StoreUnavailable):  # retiring gives them back, or their rescue does
            await self._store.release(self._dispatcher.drop_unstarted())

    async def _finish_running(self) -> None:
        idle = asyncio.create_task(self._dispatcher.idle())
        hurried = asyncio.create_task(self._hurried.wait())
        await asyncio.wait(
            (idle, hurried),
            timeout=self.settings.grace,
            return_when=asyncio.FIRST_COMPLETED,
        )
        hurried.cancel()
        if not idle.done():
            log.warning("giving back %s unfinished jobs", len(self._dispatcher.holds()))
            self._dispatcher.interrupt_all(outcomes.RELEASED)
        await idle

    async def _end_loops(self) -> None:
        running = {loop for loop in self._loops.values() if not loop.done()}
        while running:
            for loop in running:
                loop.cancel()
            # Again and again: before Python 3.12 `asyncio.wait_for`, which drivers use, loses a
            # cancellation that comes in the moment its result does.
            _, running = await asyncio.wait(running, timeout=CANCEL_AGAIN)
        await self._board.write()
        self._loops.clear()
        self._threads.close()
        self._processes.close()
        if self._heartbeat is not None:
            await self._heartbeat.stop()

    async def _retire(self) -> None:
        try:
            if self._scheduler is not None:
                await self._scheduler.resign()
            await self._store.retire(self._id)
        except StoreUnavailable as gone:
            log.warning("could not sign off: %s; the worker's row will expire", gone)

    async def _wait_for(self, name: str, until: float) -> None:
        """Wait for a loop to end, but not for a database that stays away."""
        patience = max(LEAST_PATIENCE, until - monotonic())
        _, waiting = await asyncio.wait([self._loops[name]], timeout=patience)
        if waiting:
            log.error("%s did not end; %s jobs will run again", name, self._completer.unsettled)

    def _spawn(self, name: str, loop: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(loop, name=f"mutirao-{name}")
        task.add_done_callback(self._watch)
        self._loops[name] = task

    def _watch(self, task: asyncio.Task[None]) -> None:
        """A loop that fails takes the worker down, loudly: its jobs are rescued by others."""
        if task.cancelled() or (error := task.exception()) is None:
            return
        log.critical("worker %s: %s failed", self._id, task.get_name(), exc_info=error)
        self.failure = error
        self._hurried.set()
        self._stopping = self._stopping or asyncio.create_task(self._stop())

    def _make_scheduler(self) -> Scheduler:
        look = self.settings.heartbeat
        return Scheduler(self._store, self._declared(), lambda: self._id, self._identity.name, look)

    def _start_heartbeat(self) -> Heartbeat:
        loop = asyncio.get_running_loop()
        heartbeat = Heartbeat(
            self._store.twin(),
            self.settings,
            self._identity,
            self._id,
            lambda: self._dispatcher.stuck,
            lambda answer: _tell(loop, answer),
            self._take_unstarted,
            lambda beat: _tell(loop, self._heard, beat),
            lambda id: _tell(loop, self._reborn, id),
        )
        heartbeat.start()
        return heartbeat

    def _take_unstarted(self) -> list[tuple[int, int]]:
        """For the heartbeat's thread. Should giving them back fail, the producer will."""
        self._producer.doubt()
        return self._dispatcher.drop_unstarted()

    def _heard(self, beat: Beat) -> None:
        if beat.cancelled:
            self._dispatcher.cancel(beat.cancelled)

    def _reborn(self, id: int) -> None:
        """Others have our jobs: what runs here could only be done twice."""
        former, self._id = self._id, id
        self._dispatcher.drop_unstarted()
        self._dispatcher.interrupt_all(outcomes.LOST)
        self._producer.reborn(former)

    def _expect(self, claim: Claim, outcome: Outcome) -> None:
        self._producer.expect(claim, outcome)

    def _wake(self, wake: Wake) -> None:
        self._producer.wake(wake)

    def _look_again(self) -> None:
        self._dispatcher.look_again()

    def _slot_came_back(self) -> None:
        log.info("a stuck handler has returned; its slot is free again")
        self._dispatcher.pump()

    def _begin(self, job: Job, running: Running, session: bool) -> Transaction[Any, Any]:
        return self._store.transaction(job, running, session=session)

    def _check_tasks(self) -> None:
        if not self._tasks:
            raise ConfigurationError(
                "the application has no tasks; decorate functions with @app.task in a module"
                " that is imported before the worker starts"
            )
        for task in self._tasks.values():
            task.check()
            if task.options.process:
                find_task(task.__module__, task.__qualname__)


def _identity(settings: WorkerSettings, version: str) -> NewWorker:
    host, pid = socket.gethostname(), os.getpid()
    return NewWorker(
        name=f"{host}:{pid}",
        host=host,
        pid=pid,
        queues=settings.queues,
        concurrency=settings.concurrency,
        version=version,
    )


def _tell(loop: asyncio.AbstractEventLoop, method: Any, *values: Any) -> None:
    """Call a method in the worker's loop, unless that is over."""
    if not loop.is_closed():
        loop.call_soon_threadsafe(method, *values)
