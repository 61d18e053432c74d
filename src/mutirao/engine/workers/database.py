"""Runs the worker of one database: starts its loops, and stops them in order.

Order of stopping: claim no more, release what has not started, let handlers finish within the grace
period, interrupt the rest, write every outcome, retire. Each step needs only the later ones.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from functools import partial
from time import monotonic
from typing import Any

from mutirao.engine.brokers.carried_queues import Carried, CarriedQueues
from mutirao.engine.calls import outcomes
from mutirao.engine.calls.attempt import Running
from mutirao.engine.calls.progress import ProgressWriter
from mutirao.engine.claiming.producer import Producer
from mutirao.engine.dispatch.attempt_events import EventLog, attempts_log
from mutirao.engine.dispatch.dispatcher import HURRIED_CANCEL_TIMEOUT, Dispatcher
from mutirao.engine.dispatch.executor import AttemptContext, Executor
from mutirao.engine.dispatch.noted_starts import noting
from mutirao.engine.duties.declarations import Limiter
from mutirao.engine.duties.housekeeping import Housekeeping, keep
from mutirao.engine.duties.schedules import Pauser, Scheduler
from mutirao.engine.duties.supersede import Superseding
from mutirao.engine.liveness.heartbeat import Heartbeat, WorkerView
from mutirao.engine.liveness.watchdog import WATCH_EVERY, Watch, stuck_since
from mutirao.engine.loops import OPTIONAL_WRITES_LIMIT, LoopHealth, Loops, within
from mutirao.engine.settings import WorkerSettings, identity
from mutirao.engine.settling.completer import Completer
from mutirao.engine.worker_row import WorkerRow
from mutirao.engine.workers.app_declarations import AppDeclarations
from mutirao.engine.workers.checks import cause_of, check_tasks
from mutirao.engine.workers.lifecycle import Service
from mutirao.engine.workers.shared_slots import SharedSlots
from mutirao.errors import StoreError
from mutirao.log import log, working_as
from mutirao.model.jobs.job import NOWHERE, Beat, Gives, Home, Job, Transaction, Using, Wake
from mutirao.ports import Attempt, Notifier, Store
from mutirao.tasks.topics.topics import Topic

# Seconds that a step of stopping may take, however short the grace period is: to write outcomes,
# to release jobs and retire.
LAST_WRITES_LIMIT, RETIRE_LIMIT = 5.0, 3.0
DUTY_TURN_LIMIT = 300.0  # seconds that a turn of a duty may take, which may read all jobs
STARTED, STOPPED, FAILED = "worker.started", "worker.stopped", "worker.failed"  # in the log


class Worker(Service):
    """A worker of one database, in the running event loop."""

    def __init__(
        self,
        store: Store,
        notifier: Notifier | None,
        code: AppDeclarations,
        settings: WorkerSettings,
        home: Home = NOWHERE,
        queues: CarriedQueues | None = None,
        shared: SharedSlots | None = None,
    ) -> None:
        """Set the parts.

        `home`: its database. `queues`: the queues that brokers carry; None: there are none.
        `shared`: what it shares with the workers of other databases in this process; None: it is
        the only one.
        """
        super().__init__(settings, shared or SharedSlots(settings))
        self.at_close: list[Callable[[], Coroutine[Any, Any, None]]] = []
        self._store, self._code, self._owns = store, code, shared is None
        queues, facts = queues or CarriedQueues(), identity(settings, code.version)
        self._row = WorkerRow(store, replace(facts, concurrency=0) if queues.relay_only else facts)
        self._shared.deploys.serve(code.tasks)
        self._progress_writer = ProgressWriter(store)
        self._loops = Loops(settings.turn_limit, self._loop_failed)
        self._job_log = attempts_log(settings, queues.transports)
        executor, shared = self._make_executor(home), self._shared
        pulse = self._loops.pulse("completer")
        listeners = code.listeners
        self._completer = Completer(self._row, settings, executor.alternatives, pulse, listeners)
        with working_as(self._row):  # all attempts then log this worker
            self._dispatcher = Dispatcher(
                settings, executor, self._completer, shared.slots, self._begin
            )
        self._dispatcher.note_start = noting(self._row)
        self._producer = Producer(
            self._row,
            notifier,
            settings,
            code.tasks,
            self._dispatcher,
            self._loops.pulse("producer"),
            queues.transports,
        )
        self._producer.listeners = listeners
        self._completer.on_waiting = self._producer.expect
        self._completer.on_woken = self._producer.wake
        self._completer.on_written = self._dispatcher.notify_if_room
        self._carried = Carried(
            self._row, queues, settings, code.tasks, self._dispatcher, self._producer
        )
        self._watch = Watch(
            shared.slots, self._loops.pulses, settings.exit_when_stuck, shared.starts
        )
        self._scheduler: Scheduler | None = None
        self._heartbeat: Heartbeat | None = None
        self._asking: asyncio.Task[None] | None = None  # asks why the store refuses a statement
        self._within = partial(within, store)

    @property
    def id(self) -> int:
        """The worker's id in the store; 0 before the start."""
        return self._row.id

    def _pulses(self) -> Sequence[LoopHealth]:
        return self._loops.pulses()

    def _hears(self) -> bool | None:
        return self._producer.hears

    def _unmended(self) -> Sequence[str]:
        return self._carried.unmended()

    def _beat_age(self) -> float | None:
        return None if self._heartbeat is None else self._heartbeat.age()

    async def _start(self) -> None:
        with working_as(self._row):
            self._load_parts()
            await self._start_loops()

    async def _start_loops(self) -> None:
        """Check the schema and the tasks, register, and begin to claim.

        Raises:
            SchemaError: the tables do not fit the code; nothing was started.
            ConfigurationError: a task cannot work with its options; nothing was started.
            InvalidJob: the job of a schedule is invalid; nothing was started.
        """
        settings = self.settings
        try:
            check_tasks(self._code.tasks, settings.tasks)
            house = self._carried.keeps_house
            scheduler = Scheduler(self._row, self._code.schedules(), settings.heartbeat, house)
            self._scheduler = scheduler
            limiter = Limiter(self._row, self._code.limits(), self._code.tasks)
            await self._store.check()
            superseding = Superseding(self._store, self._code.tasks, settings.poll)
            await limiter.declare()
            await superseding.declare()
            await scheduler.declare()
            self._dispatcher.set_lifetime(monotonic() + settings.lifetime)
            self._row.id = await self._store.register(self._row.facts, expiry=settings.lifetime)
        except BaseException:
            await self._store.close()
            raise
        heartbeat = self._heartbeat = self._start_heartbeat()
        self._carried.on_jobs = heartbeat.stir
        loops, longest = self._loops, settings.longest_wait
        loops.watch(heartbeat.pulse)
        loops.spawn("heartbeat", heartbeat.ended())
        loops.spawn("completer", self._completer.run())
        loops.spawn("producer", self._producer.run())
        loops.spawn("listener", self._producer.listen())
        pulse = loops.pulse("unanswered claims", DUTY_TURN_LIMIT)
        loops.spawn("unanswered claims", self._producer.find_unanswered(pulse))
        loops.spawn("schedules", scheduler.run(loops.pulse("schedules", DUTY_TURN_LIMIT), longest))
        loops.spawn("progress", self._progress_writer.run(loops.pulse("progress")))
        loops.spawn("limits", limiter.run(loops.pulse("limits"), longest))
        if superseding.rules:
            pulse = loops.pulse("supersede", DUTY_TURN_LIMIT)
            loops.spawn("supersede", superseding.run(pulse, longest))
        may_judge, listeners = heartbeat.may_judge_others, self._code.listeners
        for duty in Housekeeping(self._store, settings, may_judge, listeners).duties():
            pulse = loops.pulse(duty.name, DUTY_TURN_LIMIT)
            loops.spawn(duty.name, keep(self._row, duty, pulse, longest, house))
        if settings.app_version is not None:
            pulse = loops.pulse("versions", DUTY_TURN_LIMIT)
            loops.spawn("versions", self._shared.deploys.look(self._store, pulse, longest))
        watch_every = min(settings.heartbeat, WATCH_EVERY)
        loops.spawn("watch", self._watch.run(loops.pulse("watch"), watch_every))
        for name, run in self._carried.loops().items():
            loops.spawn(name, run(loops.pulse(name, DUTY_TURN_LIMIT)))
        for name, comparing in self._carried.comparisons():
            loops.spawn(name, comparing)
        if isinstance(self._job_log, EventLog):
            loops.spawn("events", self._job_log.beat(loops.pulse("events")))
        name = self._row.facts.name
        log.info("worker %s (%s) started", self._row.id, name, extra=self._event(STARTED))
        if not self._carried.answers:
            log.info("relaying %s; it runs no job", ", ".join(sorted(settings.queues or ())))

    def _load_parts(self) -> None:
        """Load what its duties use of the store, whose parts are loaded when they are asked for.

        Later their files may be those of another version, which do not fit what is loaded.
        """
        tasks, settings, store = self._code.tasks.values(), self.settings, self._store
        _ = store.schedules
        if settings.keep_audit is not None:
            _ = store.audit
        if settings.keep_said is not None:
            _ = store.federation
        if any(isinstance(task, Topic) for task in tasks):
            _ = store.subscriptions

    async def first_claim(self) -> None:
        """Wait until it has made its first claim."""
        await self._producer.claimed.wait()

    def stop_claiming(self) -> None:
        """Stop claiming and starting jobs; `stop` does the rest."""
        self._producer.stop()
        self._carried.stop()
        self._dispatcher.close()

    async def _stop(self, grace: float) -> None:
        """Stop step by step. Each step has a limit, whatever the database and the handlers do."""
        if self._started:
            end = monotonic() + grace
            self.stop_claiming()
            if not self._carried.answers:
                await self._finish_carrying(end, "relay")
            await self._give_back_unstarted()
            await self._finish_running(end)
            await self._finish_carrying(end, *(self._carried.loops().keys() - {"relay"}))
            self._completer.close()
            left = min(end - monotonic(), self.settings.grace)
            if await self._loops.ends(["completer"], max(LAST_WRITES_LIMIT, left)):
                unsettled = self._completer.unsettled
                log.error("completer did not end; %s jobs will run again", unsettled)
            await self._end_loops()
            await self._sign_off()
            await self._close()
            self._job_log.flush()
            log.info("worker %s stopped", self._row.id, extra=self._event(STOPPED))

    async def _finish_carrying(self, end: float, *loops: str) -> None:
        """Let loops of brokers end: received doorbells are answered, rung ones are published.

        A doorbell that a relay does not publish is rung again after a while; a message that a
        broker delivered to a worker that has left is delivered again.
        """
        if loops:
            await self._loops.ends_unless(loops, max(0.0, end - monotonic()), self._hurried)

    async def _give_back_unstarted(self) -> None:
        """Stop claiming, and release claimed jobs that have not started."""
        if await self._loops.ends(["producer"], RETIRE_LIMIT):
            self._store.cut()
        for name in self._carried.loops():
            await self._loops.ends([name], RETIRE_LIMIT)
        if unstarted := self._dispatcher.drop_unstarted():
            # If it fails, retiring or the rescue releases them.
            await self._within(RETIRE_LIMIT, "give back jobs", self._store.release(unstarted))

    async def _finish_running(self, end: float) -> None:
        idle = asyncio.create_task(self._dispatcher.idle())
        hurried = asyncio.create_task(self._hurried.wait())
        await asyncio.wait(
            (idle, hurried),
            timeout=max(0.0, end - monotonic()),
            return_when=asyncio.FIRST_COMPLETED,
        )
        hurried.cancel()
        if not idle.done():
            if self._hurried.is_set():
                self._dispatcher.patience_with_cancelled = HURRIED_CANCEL_TIMEOUT
            log.warning("giving back %s unfinished jobs", len(self._dispatcher.holds()))
            failed = self.failure is not None
            self._dispatcher.interrupt_all(outcomes.WORKER_FAILED if failed else outcomes.RELEASED)
        await idle

    async def _end_loops(self) -> None:
        await self._within(OPTIONAL_WRITES_LIMIT, "write progress", self._progress_writer.write())
        self._store.cut()  # a cancellation would wait for the network
        await self._loops.cancel()
        self._dispatcher.leave()
        if self._owns:
            self._shared.close()
        if self._heartbeat is not None:
            await self._within(RETIRE_LIMIT, "end the heartbeat", self._heartbeat.stop())

    async def _sign_off(self) -> None:
        """Release duties and jobs. Tried twice: a connection may be older than the server."""
        if self._scheduler is not None:
            await self._within(
                OPTIONAL_WRITES_LIMIT, "hand over schedules", self._scheduler.resign()
            )
        for _ in range(2):
            if await self._within(RETIRE_LIMIT, "sign off", self._retire()):
                return
        log.warning("the row of worker %s will expire", self._row.id)

    async def _retire(self) -> None:
        if unwritten := sorted(self._completer.pending()):  # they began, and must be in the history
            await self._store.lose(unwritten)
        await self._store.retire(self._row.id)

    async def _close(self) -> None:
        for close in (*self.at_close, self._carried.close, self._store.close):
            await self._within(RETIRE_LIMIT, "close connections", close())

    def _event(self, name: str) -> dict[str, object]:
        """Return the fields of a record about this worker."""
        return {"event": name, "worker": self._row.id}

    def _loop_failed(self, name: str, error: BaseException) -> None:
        """Stop the worker; other workers rescue its jobs."""
        extra = self._event(FAILED)
        log.critical("worker %s: %s failed", self._row.id, name, exc_info=error, extra=extra)
        if isinstance(error, StoreError) and self._stopping is None and self._asking is None:
            self._asking = asyncio.create_task(self._fail_for_its_cause(error))
        elif self._asking is None:
            self._fail(error)

    async def _fail_for_its_cause(self, error: StoreError) -> None:
        self._fail(await cause_of(error, self._store))

    def _make_executor(self, home: Home) -> Executor:
        code, shared = self._code, self._shared
        context = AttemptContext(
            report=self._progress_writer.report,
            log=self._job_log,
            defaults=self.settings.defaults.defaults(),
            pauser=Pauser(self._store),
            home=home,
            fan_out=self._fan_out,
        )
        return Executor(code.tasks, code.middleware, shared.threads, shared.processes, context)

    async def _fan_out(self, publication: Job, attempt: Attempt, after: str | None) -> str | None:
        """Ask for the part when there is a publication: few applications have topics."""
        return await self._store.subscriptions.fan_out(publication, attempt, after)

    def _start_heartbeat(self) -> Heartbeat:
        loop = asyncio.get_running_loop()
        body = WorkerView(
            stuck=lambda: self._shared.slots.stuck,
            runs=loop.is_running,
            ping=lambda answer: _call_in_loop(loop, answer),
            blocked=self._blocked,
            unstarted=self._take_unstarted,
            rests=lambda: not (self._producer.has_lanes or self._dispatcher.has_jobs()),
            on_beat=lambda beat, until: _call_in_loop(loop, self._on_beat, beat, until),
            on_return=lambda: _call_in_loop(loop, self._producer.wake, Wake()),
            on_reregistered=lambda id: _call_in_loop(loop, self._reborn, id),
        )
        heartbeat = Heartbeat(
            self._store.clone(within=self.settings.beat_limit),
            self.settings,
            self._row.facts,
            self._row.id,
            body,
            self._shared.heart,
            self._carried.duty,
        )
        heartbeat.start()
        return heartbeat

    def _take_unstarted(self) -> list[tuple[int, int]]:
        """Return the unstarted jobs, in the heartbeat's thread; a check repeats the release."""
        self._producer.doubt()
        return self._dispatcher.drop_unstarted()

    def _blocked(self, since: float) -> None:
        """Fail, in the heartbeat's thread, if the event loop has not answered for too long."""
        limit = self.settings.exit_when_stuck
        if (stuck := stuck_since(since, self._shared.slots.blocked_until, limit)) is None:
            return
        self.failure = stuck
        extra = self._event(FAILED)
        log.critical("worker %s failed: %s", self._row.id, self.failure, extra=extra)
        self._lose_loop()
        raise stuck

    def _on_beat(self, beat: Beat, until: float) -> None:
        if beat.cancelled:
            self._dispatcher.cancel(beat.cancelled)
        self._carried.note_holder(beat.held_elsewhere)
        self._dispatcher.set_lifetime(until)

    def _reborn(self, id: int) -> None:
        """Interrupt all attempts: other workers have these jobs, which would run twice."""
        former, self._row.id = self._row.id, id
        self._dispatcher.drop_unstarted()
        self._producer.reborn(former, self._dispatcher.interrupt_all(outcomes.LOST))

    def _begin(self, job: Job, running: Running, gives: Gives | Using) -> Transaction[Any, Any]:
        return self._store.transaction(job, running, gives=gives)


def _call_in_loop(loop: asyncio.AbstractEventLoop, method: Any, *values: Any) -> None:
    """Call a method in the worker's loop, unless the loop is closed."""
    if not loop.is_closed():
        loop.call_soon_threadsafe(method, *values)
