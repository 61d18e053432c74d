"""Runs the worker of queues that only a broker holds, without a database.

It runs beside the worker of a database and shares its slots, or alone if only such queues are
served: then no database is needed.
"""

import asyncio
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from time import monotonic
from typing import Any, NamedTuple, NoReturn

from mutirao.engine.brokers.consumer import ConsumedQueue, Handlers, Receiver, Source
from mutirao.engine.brokers.decoding import Reader
from mutirao.engine.brokers.schedule_tokens import ScheduleSource
from mutirao.engine.brokers.settling import LateStore, Write
from mutirao.engine.brokers.setup_differences import comparisons
from mutirao.engine.calls import outcomes
from mutirao.engine.calls.attempt import Running
from mutirao.engine.dispatch.attempt_events import EventLog, attempts_log
from mutirao.engine.dispatch.dispatcher import HURRIED_CANCEL_TIMEOUT
from mutirao.engine.dispatch.executor import AttemptContext, Executor
from mutirao.engine.liveness.watchdog import WATCH_EVERY, LoopWatch, Watch
from mutirao.engine.loops import Health, LoopHealth, Loops
from mutirao.engine.settings import WorkerSettings, worker_name
from mutirao.engine.workers.app_declarations import AppDeclarations
from mutirao.engine.workers.checks import check_tasks, check_waits
from mutirao.engine.workers.lifecycle import Service
from mutirao.engine.workers.newer_workers import VersionAnnouncer
from mutirao.engine.workers.shared_slots import SharedSlots
from mutirao.errors import (
    ConfigurationError,
    HandlersCannotStart,
    TransportError,
    WorkerStuck,
    WrongState,
)
from mutirao.log import log, working_as
from mutirao.model.brokers.foreign import Decode
from mutirao.model.jobs.job import Gives, Job, Using
from mutirao.model.jobs.retry import Dead
from mutirao.model.schedules.schedule import Schedule
from mutirao.ports import Transport
from mutirao.ports.announcements import Announces
from mutirao.ports.brokers import by_transport, close_transports
from mutirao.ports.tokens import KeepsSchedules
from mutirao.tasks.task import Task

LAST_SETTLINGS = 5.0  # seconds to settle ended attempts, however short the grace period is
HURRIED_SETTLINGS = 1.0  # seconds for that after a second signal
PATIENCE = 60.0  # seconds to wait for a database that is not served
CLOSE_LIMIT = 5.0  # seconds to close the connections


@dataclass(frozen=True, slots=True)
class BrokerQueues:
    """The queues by broker alone that a worker serves.

    Parameters:
        transports: their brokers, by queue.
        decoders: those of the queues of other programs, by queue.
        schedules: those that brokers keep, with their transports.
    """

    transports: Mapping[str, Transport]
    decoders: Mapping[str, Decode]
    schedules: Sequence[tuple[KeepsSchedules, Sequence[Schedule]]]


class _Name(NamedTuple):
    """The name of a worker without a row, for the log."""

    id: str


class BrokerWorker(Service):
    """Serves queues of brokers in the running event loop.

    Parameters:
        write: writes jobs whose wait is too long for a broker into the database.
        shared: what it shares with the worker of a database; None: it is the only one.
    """

    def __init__(
        self,
        queues: BrokerQueues,
        code: AppDeclarations,
        settings: WorkerSettings,
        write: Write,
        shared: SharedSlots | None = None,
    ) -> None:
        super().__init__(settings, shared or SharedSlots(settings))
        self._owns = shared is None
        self._late = LateStore(write, PATIENCE if self._owns else inf)
        self._transports, self._tasks = dict(queues.transports), code.tasks
        self._decoders = queues.decoders
        self._job_log = attempts_log(settings, self._transports)
        self._handlers = self._make_handlers(code)
        self._shared.deploys.serve(code.tasks)
        self._loops = Loops(settings.turn_limit, self._loop_failed)
        with working_as(_Name(worker_name())):  # all attempts then log this name
            self._receivers = list(self._make_receivers(queues.schedules))
        self._loop_watch = LoopWatch(
            self._shared.heart,
            self._shared.slots.blocked_until,
            settings.heartbeat,
            settings.exit_when_stuck,
            self._blocked,
        )

    async def _start(self) -> None:
        with working_as(_Name(worker_name())):
            await self._start_loops()

    async def _start_loops(self) -> None:
        """Begin to consume; wait for brokers that are unavailable.

        Raises:
            ConfigurationError: a task cannot work with its options.
        """
        check_tasks(self._tasks, self.settings.tasks)
        check_waits(self._tasks, self._transports, self.settings.defaults.defaults())
        for each in self._receivers:
            self._loops.spawn(_named(each.queue), each.run())
        if self._owns:  # otherwise the jobs of the database continue
            self._loops.spawn("start", self._check_start())
        began = {each.queue: each.began for each in self._receivers}
        for name, comparing in comparisons(self._transports, began):
            self._loops.spawn(name, comparing)
        for herald, name in self._heralds():
            self._loops.spawn(name, herald.run(self._loops.pulse(name)))
        limit, starts = self.settings.exit_when_stuck, self._shared.starts
        watch = Watch(self._shared.slots, self._loops.pulses, limit, starts)
        pulse = self._loops.pulse("watch of queues")
        self._loops.spawn(pulse.name, watch.run(pulse, WATCH_EVERY))
        if isinstance(self._job_log, EventLog):
            self._loops.spawn("events", self._job_log.beat(self._loops.pulse("events")))
        if self._owns:  # otherwise the heartbeat of the worker beside it asks the event loop
            self._loop = asyncio.get_running_loop()
            self._loop_watch.start()

    async def first_claim(self) -> None:
        """Wait until each queue is consumed, or known to be unavailable."""
        await asyncio.gather(*(each.consumes.wait() for each in self._receivers))

    def stop_claiming(self) -> None:
        """Receive and start no more; `stop` does the rest."""
        for each in self._receivers:
            each.stop()

    def health(self) -> Health:
        """Return whether it works, and if not, why. May be called from any thread."""
        found = super().health()
        if found.alive and self._owns and len(found.unmended) == len(self._receivers):
            why = f"no queue can be consumed: {found.unmended[0]}"
            return replace(found, alive=False, reason=why)
        return found

    def _pulses(self) -> Sequence[LoopHealth]:
        return self._loops.pulses()

    def _unmended(self) -> Sequence[str]:
        return [f"queue {queue!r}: {error}" for queue, error in self._refused().items()]

    def _refused(self) -> dict[str, TransportError]:
        """Return what brokers refuse until a person changes something, by queue."""
        found = {each.queue: each.refused for each in self._receivers}
        return {queue: error for queue, error in found.items() if error is not None}

    async def _check_start(self) -> None:
        """Fail if brokers refuse every queue at the start, until a person changes something.

        In the same way a worker ends that finds no schema, or has no access to its database.
        """
        await self.first_claim()
        refused = self._refused()
        if len(refused) == len(self._receivers):
            raise next(iter(refused.values()))

    async def _stop(self, grace: float) -> None:
        if self._started:
            end = monotonic() + grace
            self.stop_claiming()
            await self._finish_running(end)
            for each in self._receivers:
                each.finish()
            left = min(end - monotonic(), self.settings.grace)
            await self._end_loops(max(LAST_SETTLINGS, left))
            await self._close()
            self._job_log.flush()
            log.info("consuming no more: %s", ", ".join(self._transports))
        if self._owns:
            self._loop_watch.stop()
            self._shared.close()

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
        queues = [_named(each.queue) for each in self._receivers]
        running = await self._loops.ends_unless(queues, seconds, self._hurried)
        if running and self._hurried.is_set():
            running = await self._loops.ends(queues, HURRIED_SETTLINGS)
        if running:
            log.error("%s queues did not end; what they held comes again", running)
        for each in self._receivers:
            each.cut()
            each.dispatcher.leave()
        await self._loops.cancel()

    async def _close(self) -> None:
        try:
            async with asyncio.timeout(CLOSE_LIMIT):
                await close_transports(self._transports)
        except TimeoutError:
            log.warning("the connections to brokers could not be closed within %g s", CLOSE_LIMIT)

    def _make_receivers(
        self, schedules: Sequence[tuple[KeepsSchedules, Sequence[Schedule]]]
    ) -> Iterator[Receiver]:
        for queue, each in self._transports.items():
            yield self._receiver(queue, each, f"consuming queue {queue} of {each.name}")
        for transport, kept in schedules:
            for schedule in kept:  # one by one: a refusal of one does not concern the others
                queue = f"schedule {schedule.name} of {transport.name}"
                begun = f"in line for schedule {schedule.name} of {transport.name}"
                yield self._receiver(queue, ScheduleSource(transport, [schedule]), begun)

    def _receiver(self, queue: str, transport: Source, begun: str) -> Receiver:
        reader = Reader(queue, self._tasks, self._decoders.get(queue))
        consumed = ConsumedQueue(queue, transport, reader, begun)
        pulse = self._loops.pulse(_named(queue))
        return Receiver(consumed, self.settings, self._handlers, pulse, self._late)

    def _make_handlers(self, code: AppDeclarations) -> Handlers:
        shared, served = self._shared, self.settings.tasks
        context = AttemptContext(log=self._job_log, defaults=self.settings.defaults.defaults())
        executor = Executor(code.tasks, code.middleware, shared.threads, shared.processes, context)
        tasks = code.tasks if served is None else {*served}
        return Handlers(tasks, executor, shared.slots, refuse_to_begin, code.listeners)

    def _heralds(self) -> Iterator[tuple[VersionAnnouncer, str]]:
        if self.settings.app_version is None:
            return
        for transport, queues in by_transport(self._transports):
            if isinstance(transport, Announces):
                mine = [each for each in self._receivers if each.queue in queues]
                works = partial(_all_work, mine)
                herald = VersionAnnouncer(transport, self._shared.deploys, self.settings, works)
                yield herald, f"versions at {transport.name}"

    def _blocked(self, error: WorkerStuck) -> None:
        """Fail, in another thread: the event loop is lost, for now or for good."""
        self.failure = error
        if self.on_blocked is not None:
            log.critical("the worker failed: %s", error)
        self._lose_loop()
        with suppress(RuntimeError):  # it is closed
            self._loop.call_soon_threadsafe(self._loop_failed, "the event loop", error)

    def _loop_failed(self, name: str, error: BaseException) -> None:
        """Stop: the broker delivers its messages to other workers."""
        for_people = ConfigurationError | WorkerStuck | HandlersCannotStart | TransportError
        unfit = isinstance(error, for_people)
        log.critical("%s failed: %s", name, error, exc_info=None if unfit else error)
        self._fail(error)


def _all_work(receivers: Sequence[Receiver]) -> bool:
    return all(each.works for each in receivers)


def _named(queue: str) -> str:
    return f"queue {queue}"


def served_alone(
    transports: Mapping[str, Transport],
    settings: WorkerSettings,
    tasks: Mapping[str, Task[..., Any]],
) -> dict[str, Transport]:
    """Return the transports of the queues that a worker serves by broker alone.

    A broker delivers every message of a queue: a worker that serves only some tasks serves a queue
    if all tasks of the queue are among them.

    Raises:
        ConfigurationError: a queue is asked for by name, and its tasks are not all served.
    """

    def has_its_tasks(queue: str) -> bool:
        if settings.tasks is None:
            return True
        its = {name for name, task in tasks.items() if task.options.queue == queue}
        if its and its <= {*settings.tasks}:
            return True
        _log_left(queue, its, settings)
        return False

    return {
        queue: transport
        for queue, transport in transports.items()
        if transport.mode == "alone" and settings.serves(queue) and has_its_tasks(queue)
    }


def _log_left(queue: str, its: Collection[str], settings: WorkerSettings) -> None:
    """Log that a queue is left to other workers, if one may expect it to be served."""
    mine = set(settings.tasks or ())
    missed = ", ".join(sorted({*its} - mine))
    said = f"a broker hands out whatever comes, and {missed} would not be served"
    if not its:
        said = "no task of this application is in it"
    advice = "serve all of its tasks, or give those that are served elsewhere a queue of their own"
    if settings.queues is not None:
        raise ConfigurationError(f"queue {queue!r} cannot be served with --tasks: {said}; {advice}")
    if mine & {*its}:
        log.warning("queue %s is left to other workers: %s; %s", queue, said, advice)


class NoRow(WrongState, Dead):
    """A message has no row that a transaction could complete: no attempt will find one."""


def refuse_to_begin(job: Job, running: Running, gives: Gives | Using) -> NoReturn:
    """Raise NoRow, which makes the job dead at once: each attempt would end like this one."""
    raise NoRow(
        f"job {job.id} ({job.task}) is by broker alone, and is completed by no transaction; open"
        " one of your own, and have app.inbox(conn).remember(…, job.id) drop repetitions in it"
    )
