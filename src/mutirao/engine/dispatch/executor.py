"""Runs one attempt: decodes the arguments, calls the handler, decides the outcome.

An error of a handler or a middleware becomes an outcome; no error is raised into the loop.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from inspect import isawaitable
from typing import Any

from mutirao.engine.calls import outcomes
from mutirao.engine.calls.attempt import Finished, Running
from mutirao.engine.calls.handler_damage import NotStarted
from mutirao.engine.calls.processes import Processes
from mutirao.engine.calls.threads import Threads
from mutirao.engine.dispatch.attempt_log import JobLog
from mutirao.engine.dispatch.effective_options import EffectiveOptionsByTask
from mutirao.engine.dispatch.external_work import until_done
from mutirao.errors import InvalidArguments, StoreUnavailable
from mutirao.log import log
from mutirao.model.jobs.claim import UnfitClaim
from mutirao.model.jobs.job import NOWHERE, Claim, Home, Job, NewJob, OutcomeKind, Report
from mutirao.model.jobs.job_schedule import SchedulePauser
from mutirao.model.jobs.outcome import SUCCEEDED, Outcome
from mutirao.model.jobs.records import DeadJob
from mutirao.model.row_json import UnreadableRow, check_storable, read_object
from mutirao.model.trace import TRACEPARENT, trace_headers
from mutirao.ports import Attempt
from mutirao.tasks.around.middleware import AttemptMiddleware, around_attempt
from mutirao.tasks.defaults import Defaults
from mutirao.tasks.task import Task
from mutirao.tasks.topics.topics import Topic

FanOut = Callable[[Job, Attempt, str | None], Awaitable[str | None]]

# How many times in a row a job may lose its database connection before that counts as a failed
# attempt: enough for any outage, but it ends a job that crashes the server each time.
MAX_CUT_OFF_RUNS = 20
# How many workers in a row may be lost while they hold a job, before it is not run any more: few
# enough to stop a job that kills its workers, and enough to spare an innocent one (ADR 34). From
# the second time on, it runs without other such jobs, so that these do not suffer from it.
MAX_LOST_RUNS, LOST_RUNS_OF_SUSPECT = 10, 2
DEAD = OutcomeKind.DEAD


@dataclass(frozen=True, slots=True)
class AttemptContext:
    """What attempts know of their worker and its database.

    Parameters:
        report: receives progress.
        log: the log of attempts.
        defaults: the worker's, for tasks without options of their own.
        pauser: pauses the schedules of jobs.
        home: the database of jobs.
        fan_out: makes the deliveries of publications.
    """

    report: Report | None = None
    log: JobLog = field(default_factory=JobLog)
    defaults: Defaults | None = None
    pauser: SchedulePauser | None = None
    home: Home = NOWHERE
    fan_out: FanOut | None = None


class Executor:
    """Runs attempts of the registered tasks. `options`: how attempts of each task run."""

    def __init__(
        self,
        tasks: Mapping[str, Task[..., Any]],
        middleware: Sequence[AttemptMiddleware],
        threads: Threads,
        processes: Processes | None,
        context: AttemptContext | None = None,
    ) -> None:
        """Set the parts.

        `processes`: None runs tasks with `process=True` like other plain functions. `context`:
        None: attempts know nothing of their worker.
        """
        context = context or AttemptContext()
        self._tasks, self._pauser, self._home = tasks, context.pauser, context.home
        self._fan_out = context.fan_out
        self._middleware = tuple(middleware)
        self.options = EffectiveOptionsByTask(
            tasks, context.defaults, children=processes is not None, around=bool(middleware)
        )
        self._threads = threads
        self._processes = processes
        self._attempts, self._report = context.log, context.report

    def judge(self, claim: Claim, error: BaseException) -> Outcome:
        """Return the outcome of an attempt that ended with an error."""
        options = self.options[claim.task]
        policy = options.task.retry_of(claim.args, options.retry)
        return outcomes.of_error(error, claim.attempt, _number(claim.max_attempts), policy)

    def follow_up(self, claim: Claim, outcome: Outcome) -> NewJob | None:
        """Return the `on_dead` job to enqueue for a dead job; an `on_dead` job has none itself."""
        if outcome.kind is not OutcomeKind.DEAD or claim.on_dead_of is not None:
            return None
        dead = DeadJob(
            id=claim.id,
            task=claim.task,
            queue=claim.queue,
            args=_as_far_as_readable(claim),
            attempts=min(claim.attempt, self.most_attempts(claim)),
            error_type=outcome.error_type,
            error=outcome.error,
            tenant=claim.tenant,
            group=claim.group,
        )
        try:
            follow_up = self._tasks[claim.task].announce_death(dead)
            trace = trace_headers().get(TRACEPARENT, claim.traceparent)
            return None if follow_up is None else replace(follow_up, traceparent=trace)
        except Exception:
            log.exception("the on_dead handler of job %s cannot be enqueued", claim.id)
            return None

    def alternatives(self, refused: Finished, error: Exception) -> Iterator[Finished]:
        """Yield what may be written instead of an attempt whose outcome the database refuses."""
        outcome = self.judge(refused.claim, outcomes.unwritable(error))
        follow_up = self.follow_up(refused.claim, outcome)
        yield refused._replace(outcome=outcome, follow_up=follow_up)
        dead = outcomes.dead("SettlingFailed", "the outcome could not be written")
        yield refused._replace(outcome=dead, follow_up=None)

    def begin(self, running: Running) -> Callable[[], Any] | Outcome:
        """Begin an attempt that is only a call: return the call, or an outcome without it.

        From any thread. If an outcome is returned, the caller still has to call `ended`.
        """
        claim = running.claim
        self._attempts.started(claim)
        try:
            bound = self._refuse(claim) or self._bound(self._tasks[claim.task], running)
        except BaseException as error:
            bound = self._raised(running, error)
        if isinstance(bound, Outcome):
            return bound
        function, args, kwargs = bound
        return partial(function, *args, **kwargs)

    def end(self, running: Running, value: Any, error: BaseException | None) -> Outcome:
        """Return the outcome of an attempt whose call has returned or raised, and log it."""
        try:
            if error is not None:
                raise error
            outcome = _returned(self._tasks[running.claim.task], running, value)
        except BaseException as raised:
            outcome = self._raised(running, raised)
        return self.ended(running, outcome)

    async def end_awaiting(self, running: Running, value: Awaitable[Any]) -> Outcome:
        """Do the same where a decorator hid that the handler is a coroutine function."""
        try:
            return self.end(running, await value, None)
        except BaseException as error:
            return self.end(running, None, error)

    async def attempt(self, running: Running) -> Outcome:
        """Run one attempt to its end, however it ends, and log it."""
        claim = running.claim
        self._attempts.started(claim)
        try:
            task = self._tasks[claim.task]
            perform = self._around if self._middleware else self._perform
            outcome = await perform(task, running)
        except BaseException as error:
            outcome = self._raised(running, error)
        return self.ended(running, outcome)

    def ended(self, running: Running, outcome: Outcome) -> Outcome:
        """Log the end of an attempt, and return its outcome."""
        error = None if outcome is SUCCEEDED else running.take_error()
        died = error if outcome.kind is DEAD else None
        self._attempts.ended(running.claim, outcome, running.started, died)
        return outcome

    async def _around(self, task: Task[..., Any], running: Running) -> Outcome:
        job, raised = self._job(task, running), partial(self._raised, running)
        perform = partial(self._perform, task, running, job)
        return await around_attempt(self._middleware, job, perform, raised)

    async def _perform(
        self, task: Task[..., Any], running: Running, job: Job | None = None
    ) -> Outcome:
        if (refused := self._refuse(running.claim)) is not None:
            return refused
        try:
            if isinstance(task, Topic):
                return await self._deliver(job or self._job(task, running), running)
            if self._processes is not None and task.options.process:
                database = self._home.database
                return await self._processes.run(
                    task, running.claim, running, self._report, database
                )
            bound = self._bound(task, running, job)
            if isinstance(bound, Outcome):
                return bound
            function, args, kwargs = bound
            if task.is_coroutine:
                value = await function(*args, **kwargs)
            else:
                value = await self._in_thread(partial(function, *args, **kwargs))
            if task.asks is not None and not running.informed:
                given = job or self._job(task, running)
                await until_done(task.asks, given, value, self._in_thread)
            return _returned(task, running, value)
        except BaseException as error:
            return self._raised(running, error)

    async def _deliver(self, publication: Job, running: Running) -> Outcome:
        """Make the deliveries of a publication, which also completes it."""
        if self._fan_out is None:
            raise AssertionError("publications are delivered where there is a store")
        after = None
        while not running.settled:
            if running.shall_end():
                return running.interruption or outcomes.RELEASED
            after = await self._fan_out(publication, running, after)
        return SUCCEEDED

    def _bound(
        self, task: Task[..., Any], running: Running, job: Job | None = None
    ) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]] | Outcome:
        """Return the handler with its hooks, and its arguments; or a dead outcome if unfit."""
        signature = task.signature
        try:
            args, kwargs = signature.decode(running.claim.args)
        except InvalidArguments as unfit:
            outcome = outcomes.dead("InvalidArguments", str(unfit))
            running.note_error(unfit)
            return outcome
        if signature.wants_job:
            args = (job or self._job(task, running), *args)
        if not (task.surroundings.hooked or signature.provided):
            return task.function, args, kwargs
        inside = task.inside.acall if task.is_coroutine else task.inside.call
        call = partial(task.function, *args, **kwargs)
        return inside, (job or self._job(task, running), call), {}

    def _job(self, task: Task[..., Any], running: Running) -> Job:
        """Return the `Job` for a handler or a middleware; most handlers never read it."""
        claim = running.claim
        limit, keep = self.most_attempts(claim), task.keeper(claim.metadata)
        timeout, alive = self.options[claim.task].timeout_of(claim), running.note_alive
        return Job(
            claim, limit, timeout, running.begin, self._report, keep, running.shall_end,
            self._pauser, self._home, alive, running,
        )  # fmt: skip

    def _refuse(self, claim: Claim) -> Outcome | None:
        """Return an outcome for a job whose handler must not be called, or None."""
        if claim.cancel:
            return outcomes.CANCELLED
        if isinstance(claim, UnfitClaim):
            return outcomes.dead("UnreadableJob", claim.problem)
        if (late := outcomes.of_expiry(claim, datetime.now)) is not None:
            return late
        if not claim.lost:  # otherwise the last attempt was lost
            return None
        if claim.attempt > (limit := self.most_attempts(claim)):
            return outcomes.dead(
                "WorkerLost", f"its worker vanished during attempt {limit} of {limit}"
            )
        if claim.lost >= MAX_LOST_RUNS:
            return outcomes.dead(
                "WorkerLost", f"{claim.lost} workers in a row ended while they had this job"
            )
        return None

    def _raised(self, running: Running, error: BaseException) -> Outcome:
        """Return the outcome of an attempt whose handler or middleware raised."""
        claim = running.claim
        if running.settled:
            log.error(
                "job %s (%s) was completed by its transaction, and raised afterwards",
                *(claim.id, claim.task),
                exc_info=error,
                extra={"job": claim.id, "task": claim.task, "run": claim.run},
            )
            return SUCCEEDED
        if running.interruption is not None:
            return running.interruption
        if isinstance(error, StoreUnavailable) and claim.cut_off < MAX_CUT_OFF_RUNS:
            return outcomes.cut_off(error)
        if isinstance(error, NotStarted):
            return outcomes.not_started(error)
        running.note_error(error)
        return self.judge(claim, error)

    async def _in_thread(self, call: Callable[[], Any]) -> Any:
        result = await self._threads.run(call)
        if isawaitable(result):  # a decorator hid that the handler is a coroutine function
            return await result
        return result

    def most_attempts(self, claim: Claim) -> int:
        """Return how many attempts a job may have."""
        return _number(claim.max_attempts) or self.options[claim.task].retry.most_attempts


def _returned(task: Task[..., Any], running: Running, value: object) -> Outcome:
    """Return the outcome of an attempt whose handler returned.

    An attempt is released, not succeeded, if its handler knew that it shall end. The same holds if
    it was interrupted and swallowed its cancellation: what it has left undone is unknown.
    """
    if running.settled:
        return SUCCEEDED
    if running.informed or running.interruption is not None:
        return running.interruption or outcomes.RELEASED
    return outcomes.success(value, task.keeper(running.claim.metadata))


def _number(value: object) -> int | None:
    """Return a limit from a row, or None: SQLite may store a value of any type."""
    return value if isinstance(value, int) else None


def _as_far_as_readable(claim: Claim) -> dict[str, Any]:
    """Return the decoded arguments, or {}: other programs may have written any text."""
    try:
        args = read_object(claim.args)
        check_storable(args, "its arguments")
        return args
    except UnreadableRow:
        return {}
