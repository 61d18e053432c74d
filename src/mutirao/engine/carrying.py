"""The service of the queues that brokers carry by themselves, in one process.

It stands beside the worker of a database, with slots in common, or alone where only such queues are
served: then no database is needed.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from time import monotonic
from typing import Any, NoReturn

from mutirao.engine import outcomes
from mutirao.engine.executor import Executor
from mutirao.engine.job_log import JobLog
from mutirao.engine.logs import log
from mutirao.engine.pulse import Health, Pulse
from mutirao.engine.receiver import Receiver
from mutirao.engine.running import Begin, Running
from mutirao.engine.settings import WorkerSettings
from mutirao.engine.shared import Shared
from mutirao.engine.task_checks import check_tasks
from mutirao.engine.watch import Watch
from mutirao.errors import WrongState
from mutirao.model.job import Gives, Job
from mutirao.ports import Transport
from mutirao.tasks.middleware import AttemptMiddleware
from mutirao.tasks.task import Task

LAST_SETTLINGS = 5.0  # seconds to settle what has ended, however short the grace period is
CLOSE_LIMIT = 5.0  # seconds to close the connections
CANCEL_AGAIN_AFTER = 0.5  # seconds
WATCH_EVERY = 1.0  # seconds
HURRIED_CANCEL_TIMEOUT = 1.0  # seconds, see `Worker`


class Carrying:
    """The queues of brokers in the running event loop. A `Serving`.

    Parameters:
        transports: those of the queues that are served, by queue.
        shared: what it has in common with the worker of a database; None: it is the only one.
    """

    def __init__(
        self,
        transports: Mapping[str, Transport],
        tasks: Mapping[str, Task[..., Any]],
        middleware: Sequence[AttemptMiddleware],
        settings: WorkerSettings,
        begin: Begin,
        shared: Shared | None = None,
    ) -> None:
        self.settings = settings
        self.failure: BaseException | None = None
        self.failed, self.ended = asyncio.Event(), asyncio.Event()
        self.on_blocked: Callable[[], None] | None = None
        self._transports, self._tasks = dict(transports), tasks
        self._owns, self._shared = shared is None, shared or Shared(settings)
        self._job_log, self._begin = JobLog(settings.log_jobs), begin
        usual = settings.defaults.defaults()
        parts = self._shared.threads, self._shared.processes, None, self._job_log, usual
        self._executor = Executor(tasks, middleware, *parts)
        self._pulses: dict[str, Pulse] = {}
        self._receivers = [self._receiver(*each) for each in self._transports.items()]
        self._loops: dict[str, asyncio.Task[None]] = {}
        self._stopping: asyncio.Task[None] | None = None
        self._hurried = asyncio.Event()

    async def start(self) -> None:
        """Begin to consume; a broker that is away is waited for.

        Raises:
            ConfigurationError: a task cannot work as it is.
        """
        if self._loops or self.ended.is_set():
            return
        check_tasks(self._tasks, self.settings.tasks)
        for each in self._receivers:
            self._spawn(f"queue {each.queue}", each.run())
        watch = Watch(
            self._shared.slots, lambda: list(self._pulses.values()), self.settings.exit_when_stuck
        )
        self._spawn("watch of queues", watch.run(self._pulse("watch of queues"), WATCH_EVERY))
        for queue, transport in self._transports.items():
            log.info("consuming queue %s of %s", queue, transport.name)

    async def first_claim(self) -> None:
        """Wait until each queue is consumed, or has turned out to be away."""
        await asyncio.gather(*(each.consumes.wait() for each in self._receivers))

    async def stop(self) -> None:
        """Stop gracefully; a second call waits for the first one."""
        if self._stopping is None:
            self._stopping = asyncio.create_task(self._stop())
        await asyncio.shield(self._stopping)

    def stop_claiming(self) -> None:
        """Receive and start no more; `stop` does the rest."""
        for each in self._receivers:
            each.stop()

    def end_grace(self) -> None:
        """End the grace period now: running handlers get no more time."""
        self._hurried.set()

    def health(self) -> Health:
        """Return whether it works, and if not, why. May be called from any thread."""
        ages = {name: pulse.age() for name, pulse in self._pulses.items()}
        hanging = [name for name, pulse in self._pulses.items() if pulse.hangs()]
        reason = None
        if self.failure is not None:
            reason = f"it failed: {self.failure}"
        elif self._stopping is not None:
            reason = "it has been stopped"
        elif not self._loops:
            reason = "it has not been started"
        elif hanging:
            reason = f"no turn of {', '.join(hanging)}"
        return Health(reason is None, reason, ages, self._shared.slots.stuck)

    async def _stop(self) -> None:
        if self._loops:
            end = monotonic() + self.settings.grace
            self.stop_claiming()
            await self._finish_running(end)
            for each in self._receivers:
                each.finish()
            await self._end_loops(max(LAST_SETTLINGS, end - monotonic()))
            await self._close()
            self._job_log.flush()
            log.info("consuming no more: %s", ", ".join(self._transports))
        if self._owns:
            self._shared.close()
        self.ended.set()

    async def _finish_running(self, end: float) -> None:
        dispatchers = [each.dispatcher for each in self._receivers]
        idle = asyncio.gather(*(each.idle() for each in dispatchers))
        hurried = asyncio.ensure_future(self._hurried.wait())
        seconds = max(0.0, end - monotonic())
        await asyncio.wait((idle, hurried), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        hurried.cancel()
        if not idle.done():
            failed = self.failure is not None
            for each in dispatchers:
                if self._hurried.is_set():
                    each.patience_with_cancelled = HURRIED_CANCEL_TIMEOUT
                each.interrupt_all(outcomes.WORKER_FAILED if failed else outcomes.RELEASED)
        await idle

    async def _end_loops(self, seconds: float) -> None:
        queues = [self._loops[f"queue {each.queue}"] for each in self._receivers]
        _, running = await asyncio.wait(queues, timeout=seconds)
        if running:
            log.error("%s queues did not end; what they held comes again", len(running))
        for each in self._receivers:
            each.cut()
            each.dispatcher.leave()
        left = {loop for loop in self._loops.values() if not loop.done()}
        while left:
            for loop in left:
                loop.cancel()
            _, left = await asyncio.wait(left, timeout=CANCEL_AGAIN_AFTER)
        self._loops.clear()

    async def _close(self) -> None:
        try:
            async with asyncio.timeout(CLOSE_LIMIT):
                for each in {id(one): one for one in self._transports.values()}.values():
                    await each.aclose()
        except TimeoutError:
            log.warning("the connections to brokers could not be closed within %g s", CLOSE_LIMIT)

    def _receiver(self, queue: str, transport: Transport) -> Receiver:
        served = self._tasks if self.settings.tasks is None else set(self.settings.tasks)
        pulse = self._pulse(f"queue {queue}")
        about = self._executor, self._shared.slots, self._begin, pulse
        return Receiver(queue, transport, self.settings, served, *about)

    def _pulse(self, name: str) -> Pulse:
        pulse = self._pulses[name] = Pulse(name, self.settings.turn_limit)
        return pulse

    def _spawn(self, name: str, loop: Coroutine[Any, Any, None]) -> None:
        self._pulses[name].turn()
        task = self._loops[name] = asyncio.create_task(loop, name=f"mutirao-{name}")
        task.add_done_callback(self._loop_ended)

    def _loop_ended(self, task: "asyncio.Task[None]") -> None:
        """Stop when a loop fails: the broker gives its deliveries to others."""
        if task.cancelled() or (error := task.exception()) is None:
            return
        log.critical("%s failed", task.get_name(), exc_info=error)
        self.failure = self.failure or error
        self._hurried.set()
        self._stopping = self._stopping or asyncio.create_task(self._stop())
        self.failed.set()


def served_alone(
    transports: Mapping[str, Transport],
    settings: WorkerSettings,
    tasks: Mapping[str, Task[..., Any]],
) -> dict[str, Transport]:
    """Return the transports of the queues that a worker serves by broker alone.

    A broker hands out whatever comes: a worker of some tasks serves a queue if all of its tasks are
    among them.
    """
    queues, excluded = settings.queues, settings.exclude_queues or ()

    def has_its_tasks(queue: str) -> bool:
        if settings.tasks is None:
            return True
        its = {name for name, task in tasks.items() if task.options.queue == queue}
        return bool(its) and its <= {*settings.tasks}

    return {
        queue: transport
        for queue, transport in transports.items()
        if transport.mode == "alone"
        and (queues is None or queue in queues)
        and queue not in excluded
        and has_its_tasks(queue)
    }


def refuse_to_begin(job: Job, running: Running, gives: Gives) -> NoReturn:
    """Raise WrongState: a message has no row that a transaction could complete."""
    raise WrongState(
        f"job {job.id} ({job.task}) is by broker alone, and is completed by no transaction; open"
        " one of your own, and have app.inbox(conn).remember(…, job.id) drop repetitions in it"
    )
