"""Traces and measurements by OpenTelemetry's API; the program brings and sets up the SDK.

    OpenTelemetry().install(app)

An enqueue is a span of kind producer, an attempt one of kind consumer: from just before its handler
is called, not from the claim. It is linked to the enqueue, and no child of it unless asked for:
a job may run days later, and several times. The names are those of the semantic conventions for
messaging (1.44), which are no part of the API and still change: so they are written here.
"""

from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from mutirao.errors import ConfigurationError, MissingDriver
from mutirao.model.jobs.job import Job, NewJob
from mutirao.model.jobs.outcome import Outcome
from mutirao.model.jobs.states import OutcomeKind
from mutirao.model.trace import TRACEPARENT, hand_trace, trace_headers
from mutirao.tasks.around.middleware import AttemptSteps, EnqueueManySteps, EnqueueSteps
from mutirao.telemetry.guarded_calls import GuardedCalls
from mutirao.telemetry.job_trace import headers_of, with_headers

try:
    from opentelemetry import context as contexts, metrics, propagate, trace
    from opentelemetry.context import Context
    from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode
except ModuleNotFoundError as missing:  # pragma: no cover
    raise MissingDriver(
        f"traces need {missing.name}, which is not installed: run pip install 'mutirao[otel]'"
    ) from missing

from mutirao.telemetry.opentelemetry_metrics import KINDS_KEPT, Instruments, WorkerMeasurements

if TYPE_CHECKING:
    from mutirao.app import Mutirao

LIBRARY = "mutirao"
SYSTEM = {"messaging.system": "mutirao"}
OPERATION = "messaging.operation.name"
ENQUEUE = {**SYSTEM, OPERATION: "enqueue", "messaging.operation.type": "send"}
CREATE = {**SYSTEM, OPERATION: "create", "messaging.operation.type": "create"}
PROCESS = {**SYSTEM, OPERATION: "process", "messaging.operation.type": "process"}
QUEUE, COUNT = "messaging.destination.name", "messaging.batch.message_count"
ID, TASK = "messaging.message.id", "messaging.mutirao.task"
ATTEMPT, RUN, OUTCOME = (f"messaging.mutirao.{each}" for each in ("attempt", "run", "outcome"))
SCHEDULE, ERROR_TYPE = "messaging.mutirao.schedule", "error.type"
_NOTHING = Context()  # in which no span is the current one; never changed
_FAILED = (OutcomeKind.RETRIED, OutcomeKind.DEAD)


class OpenTelemetry:
    """Spans of enqueues and attempts, and measurements, of the applications it is installed in.

    What an exporter or a processor raises is logged, and ends no attempt. Use the SDK's
    `BatchSpanProcessor`, which exports in a thread of its own: an exporter that hangs holds up
    nothing then.

    Parameters:
        tracer_provider, meter_provider: the program's; the global ones unless given.
        attempts: "link" has each attempt begin a trace of its own, linked to the enqueue; "parent"
            has it be a child of the enqueue, in the same trace.
        names: what the names of spans have after the operation: the "queue", as the
            conventions have it, or the "task".
        stacks: whose exceptions are recorded with a stack: "last", those of which a job dies;
            "all"; "none". The type of the error is recorded of each.
        each_of_many: whether each job of `enqueue_many` has a span of its own, beside that of the
            call. Without, all of them are linked to that one.
        measure: whether measurements are made as well.
    """

    def __init__(
        self,
        *,
        tracer_provider: trace.TracerProvider | None = None,
        meter_provider: metrics.MeterProvider | None = None,
        attempts: Literal["link", "parent"] = "link",
        names: Literal["queue", "task"] = "queue",
        stacks: Literal["last", "all", "none"] = "last",
        each_of_many: bool = True,
        measure: bool = True,
    ) -> None:
        given = {"attempts": attempts, "names": names, "stacks": stacks}
        for name, value in given.items():
            _check(name, value)
        self._guarded = GuardedCalls("OpenTelemetry")
        self._tracer = trace.get_tracer(LIBRARY, tracer_provider=tracer_provider)
        self._instruments: Instruments | None = None
        if measure:
            meter = metrics.get_meter(LIBRARY, meter_provider=meter_provider)
            self._instruments = Instruments(meter)
        self._links, self._by_task = attempts == "link", names == "task"
        self._stacks, self._each = stacks, each_of_many
        self._made: dict[tuple[str, str, str], tuple[str, Mapping[str, str]]] = {}

    def install(self, app: "Mutirao") -> None:
        """Watch an application, from the next enqueue and the next attempt on.

        Install it first: then its spans stand around all other middleware.

        Raises:
            ConfigurationError: OpenTelemetry is installed in it already.
        """
        installed = [getattr(each, "__self__", None) for each in app._around_attempt]
        if any(isinstance(each, OpenTelemetry) for each in installed):
            raise ConfigurationError(
                "OpenTelemetry is installed in this application already; each enqueue would have"
                " two spans. Install it once"
            )
        app.around_enqueue(self.around_enqueue)
        app.around_enqueue_many(self.around_enqueue_many)
        app.around_attempt(self.around_attempt)
        app.around_child(in_child)
        if self._instruments is not None:
            app.measure(WorkerMeasurements(self._instruments))

    # Enqueues

    def around_enqueue(self, job: NewJob) -> EnqueueSteps:
        """Have a span around an enqueue, and its context in the job."""
        call = _call.get()
        began = perf_counter()
        opened = (
            self._guarded(self._open_one, job)
            if call is None
            else self._guarded(self._add, job, call)
        )
        opened = opened or _Opened(job)
        try:
            handle = yield opened.job
        except BaseException as error:
            self._guarded(opened.close, _failure(error))
            raise
        self._guarded(opened.close, {ID: str(handle.id), "messaging.mutirao.how": handle.how})
        if self._instruments is not None and call is None:
            self._guarded(
                self._instruments.enqueued, {(job.queue, job.task): 1}, perf_counter() - began
            )

    def around_enqueue_many(self) -> EnqueueManySteps:
        """Have a span around a call that enqueues many jobs, or a graph."""
        call, began = self._guarded(self._open_many), perf_counter()
        if call is None:
            yield
            return
        token = _call.set(call)
        try:
            yield
        except BaseException as error:
            self._guarded(call.close, _failure(error))
            raise
        finally:
            _call.reset(token)
        self._guarded(call.close, {})
        if self._instruments is not None and call.jobs:
            self._guarded(self._instruments.enqueued, call.jobs, perf_counter() - began)

    def _open_one(self, job: NewJob) -> "_Opened":
        parent = propagate.extract(headers_of(job)) if job.traceparent else None
        span, context = self._span(job, ENQUEUE, SpanKind.PRODUCER, parent)
        return _Opened(_told(job, context), span, contexts.attach(context))

    def _open_many(self) -> "_ManyCall":
        # The producer is the one that makes the context of the messages.
        kind = SpanKind.CLIENT if self._each else SpanKind.PRODUCER
        span = self._tracer.start_span("enqueue", kind=kind, attributes=ENQUEUE)
        context = trace.set_span_in_context(span)
        return _ManyCall(span, context, contexts.attach(context))

    def _add(self, job: NewJob, call: "_ManyCall") -> "_Opened":
        """Add a job to a call. It may be in another thread than the call, which waits for it."""
        call.add(job)
        if not self._each:
            return _Opened(_told(job, call.context))
        span, context = self._span(job, CREATE, SpanKind.PRODUCER, call.context)
        return _Opened(_told(job, context), span)

    # Attempts

    def around_attempt(self, job: Job) -> AttemptSteps:
        """Have a span around an attempt, as the current one for all that runs in it."""
        attempt, outcome = self._guarded(self._begin, job), None
        if attempt is None:
            yield
            return
        try:
            outcome = yield
        finally:
            self._guarded(self._end, attempt, outcome)

    def _begin(self, job: Job) -> "_Measured | None":
        """Return the span of an attempt; None: no SDK makes any, and the job has no trace."""
        links, parent = None, _NOTHING
        if headers := headers_of(job):
            parent = propagate.extract(headers, context=_NOTHING)
            if self._links:
                cause = trace.get_current_span(parent).get_span_context()
                links = [Link(cause)] if cause.is_valid else None
                parent = trace.set_span_in_context(trace.INVALID_SPAN, parent)
        name, alike = self._alike(PROCESS, job.queue, job.task)
        span = self._tracer.start_span(
            name,
            parent,
            SpanKind.CONSUMER,
            {**alike, ID: str(job.id), ATTEMPT: job.attempt, RUN: job.run},
            links,
        )
        if not (headers or span.get_span_context().is_valid or contexts.get_current()):
            return None
        if job._claim.metadata is not None and (schedule := job.schedule) is not None:
            span.set_attribute(SCHEDULE, schedule.name)
        context = trace.set_span_in_context(span, parent)
        token = contexts.attach(context)
        hand_trace(partial(self._headers, context))
        return _Measured(span, token)

    def _headers(self, context: Context) -> dict[str, str]:
        return self._guarded(_injected, context) or {}

    def _end(self, attempt: "_Measured", outcome: Outcome | None) -> None:
        span, token = attempt
        try:
            if outcome is not None and span.is_recording():
                self._tell(span, outcome)
        finally:
            _end(span, token)

    def _tell(self, span: Span, outcome: Outcome) -> None:
        span.set_attribute(OUTCOME, str(outcome.kind))
        if outcome.kind not in _FAILED:
            return
        kind, (said, stack) = outcome.error_type or "_OTHER", _parts(outcome.error or "")
        span.set_attribute(ERROR_TYPE, kind)
        span.set_status(Status(StatusCode.ERROR, f"{kind}: {said.partition(chr(10))[0]}"))
        if self._stacks == "all" or (self._stacks == "last" and outcome.kind is OutcomeKind.DEAD):
            told = {"exception.type": kind, "exception.message": said}
            more = {"exception.stacktrace": stack} if stack else {}
            span.add_event("exception", {**told, **more})

    def _span(
        self,
        job: NewJob,
        attributes: Mapping[str, str],
        kind: SpanKind,
        parent: Context | None,
    ) -> tuple[Span, Context]:
        """Start a span about a job; return it and the context in which it is the current one."""
        name, alike = self._alike(attributes, job.queue, job.task)
        span = self._tracer.start_span(name, context=parent, kind=kind, attributes=alike)
        return span, trace.set_span_in_context(span, parent)

    def _alike(
        self, attributes: Mapping[str, str], queue: str, task: str
    ) -> tuple[str, Mapping[str, str]]:
        """Return the name and the attributes of spans that are alike, made once for many."""
        key = attributes[OPERATION], queue, task
        if (found := self._made.get(key)) is None:
            if len(self._made) >= KINDS_KEPT:
                self._made.clear()
            name = f"{key[0]} {task if self._by_task else queue}"
            found = self._made[key] = name, {**attributes, QUEUE: queue, TASK: task}
        return found


def in_child(job: Job) -> Iterator[None]:
    """Have the attempt's span be the parent of those of a handler in a child process.

    A hook: a child finds it by its name, and has the trace from its worker. Elsewhere the span is
    the current one already.
    """
    here = trace.get_current_span().get_span_context().is_valid
    if here or TRACEPARENT not in (headers := trace_headers()):
        yield
        return
    origin = GuardedCalls("OpenTelemetry")(propagate.extract, headers)
    token = contexts.attach(origin or Context())
    try:
        yield
    finally:
        contexts.detach(token)


class _Measured(NamedTuple):
    span: Span
    token: Any


@dataclass(slots=True)
class _Opened:
    """An enqueue that is under way: the job to write, and its span, if it has one."""

    job: NewJob
    span: Span | None = None
    token: Any = None

    def close(self, told: Mapping[str, str]) -> None:
        if self.span is not None:
            _close(self.span, told, self.token)


@dataclass(slots=True)
class _ManyCall:
    """A call of `enqueue_many` that is under way; `jobs`: how many, by queue and task."""

    span: Span
    context: Context
    token: Any
    jobs: dict[tuple[str, str], int] = field(default_factory=dict)

    def add(self, job: NewJob) -> None:
        where = job.queue, job.task
        self.jobs[where] = self.jobs.get(where, 0) + 1

    def close(self, told: Mapping[str, str]) -> None:
        self.span.set_attribute(COUNT, sum(self.jobs.values()))
        queues = {queue for queue, _ in self.jobs}
        if len(queues) == 1:
            [queue] = queues
            self.span.set_attribute(QUEUE, queue)
            self.span.update_name(f"enqueue {queue}")
        _close(self.span, told, self.token)


_call: ContextVar[_ManyCall | None] = ContextVar("mutirao_enqueue_many", default=None)


def _close(span: Span, told: Mapping[str, str], token: Any) -> None:
    try:
        for name, value in told.items():
            span.set_attribute(name, value)
        if ERROR_TYPE in told:
            span.set_status(Status(StatusCode.ERROR))
    finally:
        _end(span, token)


def _end(span: Span, token: Any) -> None:
    """End a span, and leave its context, whatever the program's processors raise."""
    try:
        span.end()
    finally:
        if token is not None:
            contexts.detach(token)


def _told(job: NewJob, context: Context) -> NewJob:
    return with_headers(job, _injected(context))


def _injected(context: Context) -> dict[str, str]:
    headers: dict[str, str] = {}
    propagate.inject(headers, context=context)
    return headers


def _failure(error: BaseException) -> dict[str, str]:
    kind = type(error)
    plain = kind.__module__ in ("builtins", "mutirao.errors")
    return {ERROR_TYPE: kind.__qualname__ if plain else f"{kind.__module__}.{kind.__qualname__}"}


def _parts(error: str) -> tuple[str, str]:
    """Return what an error says, and its stack, of the text that is kept of it."""
    said, begins, stack = error.partition("\n\nTraceback (most recent call last)")
    return said, f"{begins.strip()}{stack}" if begins else ""


_WORDS = {
    "attempts": ("link", "parent"),
    "names": ("queue", "task"),
    "stacks": ("last", "all", "none"),
}


def _check(name: str, value: str) -> None:
    if value not in _WORDS[name]:
        raise ConfigurationError(
            f"OpenTelemetry was given {name}={value!r}; expected one of"
            f" {', '.join(map(repr, _WORDS[name]))}"
        )
