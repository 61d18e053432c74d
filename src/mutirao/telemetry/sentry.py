"""Sentry: an issue for what jobs die of, transactions of attempts, and check-ins of schedules.

    sentry_sdk.init(…) Sentry().install(app)

An attempt has an isolation scope of its own, as a request has in Sentry's integrations of web
frameworks. A failure that is tried again is no issue: only the death of a job is.
"""

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from time import time
from typing import TYPE_CHECKING, Any, Literal

from mutirao.errors import ConfigurationError, MissingDriver
from mutirao.model.blanking import Blanking
from mutirao.model.jobs.job import Job, NewJob
from mutirao.model.jobs.outcome import Outcome, error_of
from mutirao.model.jobs.states import OutcomeKind
from mutirao.model.trace import TRACEPARENT, hand_trace, trace_headers
from mutirao.tasks.around.middleware import AttemptSteps, EnqueueManySteps, EnqueueSteps
from mutirao.telemetry.guarded_calls import GuardedCalls
from mutirao.telemetry.job_trace import BAGGAGE, headers_of, with_headers

try:
    import sentry_sdk
except ModuleNotFoundError as missing:  # pragma: no cover
    raise MissingDriver(
        f"Sentry needs {missing.name}, which is not installed: run pip install 'mutirao[sentry]'"
    ) from missing

from mutirao.telemetry.sentry_crons import CheckIns
from mutirao.telemetry.sentry_events import event_of, is_our_death
from mutirao.telemetry.sentry_spans import SENTRY_TRACE, Attempted, Spans

if TYPE_CHECKING:
    from mutirao.app import Mutirao

MOST_JOBS_REMEMBERED, MOST_CRUMBS = 1_000, 20  # of earlier failures in this process
_WORDS = ("dead", "all", "none")
_inside: ContextVar[bool] = ContextVar("mutirao_sentry", default=False)


class Sentry:
    """Events, transactions and check-ins of the applications it is installed in.

    It does nothing until the program has called `sentry_sdk.init`. What the SDK or its transport
    raises is logged, and ends no attempt. Sentry's own transport sends in a thread of its own.

    Parameters:
        events: what becomes an issue: "dead", the error of which a job dies; "all", that of each
            attempt that failed; "none".
        breadcrumbs: whether an event has the earlier failures of its job as breadcrumbs: those that
            this process has seen.
        args: whether events have the job's arguments, those blanked that are secrets by their
            names; None: as `send_default_pii` of the SDK says.
        crons: whether jobs of schedules check in.
        monitor: more of the configuration of monitors, beside schedule and time zone:
            {"checkin_margin": 5, "max_runtime": 60}, in minutes.
    """

    def __init__(
        self,
        *,
        events: Literal["dead", "all", "none"] = "dead",
        breadcrumbs: bool = True,
        args: bool | None = None,
        crons: bool = True,
        monitor: Mapping[str, Any] | None = None,
    ) -> None:
        if events not in _WORDS:
            raise ConfigurationError(
                f"Sentry was given events={events!r}; expected one of"
                f" {', '.join(map(repr, _WORDS))}"
            )
        self._guarded = GuardedCalls("Sentry")
        self._events, self._args = events, args
        self._crumbs = _Crumbs() if breadcrumbs else None
        self._crons, self._monitor = crons, dict(monitor or {})
        self._spans = Spans()

    def install(self, app: "Mutirao") -> None:
        """Watch an application, from the next enqueue and the next attempt on.

        Raises:
            ConfigurationError: Sentry is installed in it already.
        """
        installed = [getattr(each, "func", None) for each in app._around_attempt]
        if any(getattr(each, "__func__", None) is Sentry._around_attempt for each in installed):
            raise ConfigurationError(
                "Sentry is installed in this application already; each death would be two events."
                " Install it once"
            )
        crons = None
        if self._crons:
            crons = CheckIns(app.schedules.in_code, app.schedules.alist, self._monitor)
        app.around_enqueue(self.around_enqueue)
        app.around_enqueue_many(self.around_enqueue_many)
        app.around_attempt(partial(self._around_attempt, crons))
        app.around_child(in_child)
        # The engine logs deaths as errors, which the SDK's logging integration makes events of.
        sentry_sdk.get_global_scope().add_event_processor(_without_our_deaths)

    # Enqueues

    def around_enqueue(self, job: NewJob) -> EnqueueSteps:
        """Have a span around an enqueue, and the trace in the job."""
        if not sentry_sdk.is_initialized():
            yield job
            return
        span = self._guarded(self._spans.publishing, job)
        told = self._guarded(self._told, job, span) or job
        try:
            handle = yield told
        except BaseException:
            if span is not None:
                self._guarded(span.end, "internal_error")
            raise
        if span is not None:
            self._guarded(span.tell, {"messaging.message.id": str(handle.id)})
            self._guarded(span.end, "ok")

    def around_enqueue_many(self) -> EnqueueManySteps:
        """Have a span around a call that enqueues many jobs, or a graph; its jobs have none."""
        call = self._guarded(self._spans.publishing_many)
        token = self._guarded(self._spans.enter, call)
        status = "internal_error"
        try:
            yield
            status = "ok"
        finally:
            if token is not None:
                self._spans.leave(token)
            if call is not None:
                self._guarded(call.end, status)

    def _told(self, job: NewJob, span: Any) -> NewJob:
        headers = self._spans.headers(span)
        if not headers:
            return job
        traced = with_headers(job, headers)
        if traced.traceparent is None and SENTRY_TRACE in headers:
            return with_headers(traced, {TRACEPARENT: _w3c(headers[SENTRY_TRACE])})
        return traced

    # Attempts

    def _around_attempt(self, crons: CheckIns | None, job: Job) -> AttemptSteps:
        if not sentry_sdk.is_initialized():
            yield
            return
        attempt, outcome = self._guarded(self._begin, job, crons), None
        try:
            outcome = yield
        finally:
            if attempt is not None and outcome is not None:
                self._guarded(self._end, attempt, outcome)
            if attempt is not None:
                self._guarded(attempt.stack.close)

    def _begin(self, job: Job, crons: CheckIns | None) -> "_Watched":
        with ExitStack() as stack:
            scope = stack.enter_context(sentry_sdk.isolation_scope())
            scope.clear_breadcrumbs()
            scope.add_event_processor(partial(self._describe, job))
            if self._crumbs is not None:
                for crumb in self._crumbs.of(job):
                    scope.add_breadcrumb(crumb)
            stack.callback(_inside.reset, _inside.set(True))
            span = stack.enter_context(self._spans.processing(job, _headers(job)))
            hand_trace(_handed(self._spans.headers(None)))
            check_in = None if crons is None else crons.begun(job)
            return _Watched(job, span, check_in, stack.pop_all())

    def _end(self, attempt: "_Watched", outcome: Outcome) -> None:
        job, kind = attempt.job, outcome.kind
        attempt.span.status = "ok" if kind is OutcomeKind.SUCCEEDED else "aborted"
        died, failed = kind is OutcomeKind.DEAD, kind is OutcomeKind.RETRIED
        if died:
            attempt.span.status = "internal_error"
        if (died and self._events != "none") or (failed and self._events == "all"):
            level: Literal["error", "warning"] = "error" if died else "warning"
            event, hint = event_of(job, outcome, error_of(job), level)
            sentry_sdk.capture_event(event, hint)
        if self._crumbs is not None:
            self._crumbs.note(job, outcome)
        if attempt.check_in is not None:
            attempt.check_in(kind)

    def _describe(self, job: Job, event: Any, hint: Any) -> Any:
        """Add to an event, made anywhere in an attempt, which one that is."""
        self._guarded(self._add, job, event)
        return event

    def _add(self, job: Job, event: Any) -> None:
        tags = {"task": job.task, "queue": job.queue, "job": str(job.id)}
        if job.tenant is not None:
            tags["tenant"] = job.tenant
        event["tags"] = {**dict(event.get("tags") or {}), **tags}
        told = {
            "id": str(job.id),
            "task": job.task,
            "queue": job.queue,
            "attempt": job.attempt,
            "max_attempts": job.max_attempts,
            "run": job.run,
            "enqueued_at": job.enqueued_at.isoformat(),
        }
        wanted = self._args
        if wanted is None:
            wanted = sentry_sdk.get_client().should_send_default_pii()
        if wanted:
            told["args"] = Blanking().value(job.args)
        event.setdefault("contexts", {})["job"] = told


def in_child(job: Job) -> Iterator[None]:
    """Have what a handler does in a child process be part of its attempt's trace.

    A hook: a child finds it by its name, and has the trace from its worker. Elsewhere the scope is
    there already.
    """
    if _inside.get() or not sentry_sdk.is_initialized():
        yield
        return
    guarded, stack = GuardedCalls("Sentry"), ExitStack()
    attempted = guarded(_enter_child, stack, job) or Attempted()
    attempted.status = "internal_error"
    try:
        yield
        attempted.status = "ok"
    finally:
        guarded(stack.close)


def _enter_child(stack: ExitStack, job: Job) -> Attempted:
    scope = stack.enter_context(sentry_sdk.isolation_scope())
    scope.clear_breadcrumbs()
    scope.set_tags({"task": job.task, "queue": job.queue, "job": str(job.id)})
    return stack.enter_context(Spans().processing(job, dict(trace_headers())))


@dataclass(slots=True)
class _Watched:
    """An attempt that is under way."""

    job: Job
    span: Any
    check_in: Any
    stack: ExitStack


class _Crumbs:
    """The failures of jobs that will be tried again, of the last jobs that failed here."""

    def __init__(self) -> None:
        self._by_job: OrderedDict[tuple[str, int], list[dict[str, Any]]] = OrderedDict()

    def of(self, job: Job) -> list[dict[str, Any]]:
        """Return those of a job."""
        return self._by_job.get((job.database, job.id), [])

    def note(self, job: Job, outcome: Outcome) -> None:
        """Keep why an attempt is tried again; forget a job that has ended."""
        key = job.database, job.id
        if outcome.kind.final:
            self._by_job.pop(key, None)
        elif outcome.kind is OutcomeKind.RETRIED:
            said = (outcome.error or "").partition("\n")[0]
            self._by_job.setdefault(key, []).append({
                "type": "error",
                "category": "mutirao.retry",
                "level": "warning",
                "message": f"attempt {job.attempt} failed: {outcome.error_type}: {said}",
                "timestamp": datetime.fromtimestamp(time(), UTC),
            })  # fmt: skip
            self._by_job.move_to_end(key)
            del self._by_job[key][:-MOST_CRUMBS]
            while len(self._by_job) > MOST_JOBS_REMEMBERED:
                self._by_job.popitem(last=False)


def _headers(job: Job) -> dict[str, str]:
    """Return the headers of the trace in which a job was enqueued, as Sentry reads them."""
    headers = headers_of(job)
    if SENTRY_TRACE not in headers and job.traceparent is not None:
        _, trace, span, *_ = [*job.traceparent.split("-"), "", ""]
        headers[SENTRY_TRACE] = f"{trace}-{span}"
    return headers


def _handed(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers of the trace that continues; W3C's only if there is no other trace."""
    told = {name: value for name, value in headers.items() if name in (SENTRY_TRACE, BAGGAGE)}
    if SENTRY_TRACE in told and TRACEPARENT not in trace_headers():
        told[TRACEPARENT] = _w3c(told[SENTRY_TRACE])
    return told


def _w3c(sentry_trace: str) -> str:
    trace, span, *sampled = sentry_trace.split("-")
    return f"00-{trace}-{span}-{'00' if sampled == ['0'] else '01'}"


def _without_our_deaths(event: Any, hint: Any) -> Any:
    return None if is_our_death(hint) else event
