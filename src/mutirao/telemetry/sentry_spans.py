"""Spans of Sentry, in its own words, in both of its ways: transactions, and spans in a stream.

Which of them a program has, it says when it calls `sentry_sdk.init`. The SDK refuses the calls of
the other one.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar, Token
from datetime import UTC, datetime
from typing import Any

import sentry_sdk

from mutirao.model.jobs.job import Job, NewJob

SENTRY_TRACE = "sentry-trace"
ORIGIN = "auto.queue.mutirao"
TASK_OP, PROCESS_OP, PUBLISH_OP = "queue.task.mutirao", "queue.process", "queue.publish"
SUBMITS = "queue.submit"  # prefix of the spans that integrations of frameworks make of an enqueue
SYSTEM, QUEUE, COUNT = (
    "messaging.system",
    "messaging.destination.name",
    "messaging.batch.message_count",
)


class SentrySpan:
    """A span of either way, which does not become the current one.

    Parameters:
        span: None: there is nothing to report.
        ends: whether this code ends it.
    """

    def __init__(self, span: Any, ends: bool = True) -> None:
        self.span, self._ends = span, ends

    def tell(self, data: Mapping[str, Any]) -> None:
        """Add data."""
        for name, value in data.items() if self.span is not None else ():
            _set(self.span, name, value)

    def end(self, status: str) -> None:
        """End it."""
        if self.span is not None and self._ends:
            _conclude(self.span, status)


class SpanOfMany(SentrySpan):
    """The span of a call of `enqueue_many`, with how many jobs it has."""

    def __init__(self, span: Any) -> None:
        super().__init__(span)
        self._queues: set[str] = set()
        self._jobs = 0

    def add(self, job: NewJob) -> None:
        """Count a job."""
        self._jobs += 1
        self._queues.add(job.queue)

    def end(self, status: str) -> None:
        """End it."""
        told: dict[str, Any] = {COUNT: self._jobs}
        if len(self._queues) == 1:
            told[QUEUE] = min(self._queues)
        self.tell(told)
        super().end(status)


class Attempted:
    """The spans of an attempt; `status` is theirs when they end."""

    status = "ok"


_many: ContextVar[SpanOfMany | None] = ContextVar("mutirao_sentry_many", default=None)


class Spans:
    """The spans of one installation."""

    def publishing(self, job: NewJob) -> SentrySpan:
        """Begin the span of an enqueue.

        Within one that Sentry's integration of a framework has made for it, that one is reported
        instead; within `enqueue_many` that of the call.
        """
        if (call := _many.get()) is not None:
            call.add(job)
            return SentrySpan(call.span, ends=False)
        told = {SYSTEM: "mutirao", QUEUE: job.queue}
        current = _current()
        if current is None:
            return SentrySpan(None)
        ours = not _op(current).startswith(SUBMITS)
        span = SentrySpan(_started(PUBLISH_OP, job.task) if ours else current, ends=ours)
        span.tell(told)
        return span

    def publishing_many(self) -> SpanOfMany:
        """Begin the span of a call of `enqueue_many`."""
        active = sentry_sdk.is_initialized() and _current() is not None
        call = SpanOfMany(_started(PUBLISH_OP, "enqueue_many") if active else None)
        call.tell({SYSTEM: "mutirao"})
        return call

    def enter(self, call: SpanOfMany | None) -> Token[SpanOfMany | None]:
        """Count all jobs that are enqueued from here on for that call; see `leave`."""
        return _many.set(call)

    def leave(self, token: Token[SpanOfMany | None]) -> None:
        """Stop counting them for the call."""
        _many.reset(token)

    def headers(self, span: SentrySpan | None) -> dict[str, str]:
        """Return the headers that carry the trace of a span, or of the current one.

        None of a program that has no span: all its jobs would be in one trace.
        """
        if span is not None and span.span is None:
            return {}
        scope = sentry_sdk.get_current_scope()
        given = {} if span is None or _streams() else {"span": span.span}
        found = dict(scope.iter_trace_propagation_headers(**given))
        return {name.lower(): value for name, value in found.items()}

    @contextmanager
    def processing(self, job: Job, headers: Mapping[str, str]) -> Iterator[Attempted]:
        """Wrap the block in the spans of an attempt, in the trace that the headers carry."""
        attempted, told = Attempted(), _about(job)
        if _streams():
            yield from _streamed(job, headers, told, attempted)
            return
        begun = sentry_sdk.continue_trace(
            dict(headers), op=TASK_OP, name=job.task, source="task", origin=ORIGIN
        )
        about = {"task": job.task, "queue": job.queue, "id": job.id, "attempt": job.attempt}
        sampling = {"mutirao_job": about}
        with sentry_sdk.start_transaction(begun, custom_sampling_context=sampling) as transaction:
            with sentry_sdk.start_span(op=PROCESS_OP, name=job.task, origin=ORIGIN) as span:
                for name, value in told.items():
                    span.set_data(name, value)
                yield attempted
                span.set_status(attempted.status)
            transaction.set_status(attempted.status)


def _streamed(
    job: Job, headers: Mapping[str, str], told: Mapping[str, Any], attempted: Attempted
) -> Iterator[Attempted]:
    from sentry_sdk import traces

    traces.continue_trace(dict(headers))
    about = {"sentry.origin": ORIGIN, "sentry.segment.name.source": "task"}
    attributes = {**about, "sentry.op": TASK_OP, **told}
    with traces.start_span(name=job.task, attributes=attributes, parent_span=None) as outer:
        inner = {**about, "sentry.op": PROCESS_OP, **told}
        with traces.start_span(name=job.task, attributes=inner) as span:
            yield attempted
            span.status = outer.status = _streamed_status(attempted.status)


def _about(job: Job) -> dict[str, Any]:
    waited = (datetime.now(UTC) - job.run_at).total_seconds()
    return {
        SYSTEM: "mutirao",
        QUEUE: job.queue,
        "messaging.message.id": str(job.id),
        "messaging.message.retry.count": job.attempt - 1,
        "messaging.message.receive.latency": round(1_000 * max(0.0, waited)),
    }


def _streams() -> bool:
    options = sentry_sdk.get_client().options
    chosen = options.get("trace_lifecycle")
    if chosen is None:
        chosen = (options.get("_experiments") or {}).get("trace_lifecycle")
    return bool(chosen == "stream")


def _current() -> Any:
    if not _streams():
        return sentry_sdk.get_current_span()
    from sentry_sdk import traces

    return traces.get_current_span()


def _started(op: str, name: str) -> Any:
    if not _streams():
        return sentry_sdk.start_span(op=op, name=name, origin=ORIGIN)
    from sentry_sdk import traces

    attributes: Any = {"sentry.op": op, "sentry.origin": ORIGIN}
    return traces.start_span(name=name, attributes=attributes, active=False)


def _op(span: Any) -> str:
    if hasattr(span, "get_attributes"):
        return str(span.get_attributes().get("sentry.op") or "")
    return str(span.op or "")


def _set(span: Any, name: str, value: Any) -> None:
    (span.set_attribute if hasattr(span, "set_attribute") else span.set_data)(name, value)


def _conclude(span: Any, status: str) -> None:
    if hasattr(span, "set_attribute"):
        span.status = _streamed_status(status)
        span.end()
    else:
        span.set_status(status)
        span.finish()


def _streamed_status(status: str) -> str:
    return "error" if status == "internal_error" else "ok"
