"""Spans of enqueues and attempts, as an exporter in memory has them."""

from __future__ import annotations

import logging
import threading
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from opentelemetry import baggage, context, trace
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import (
    BatchSpanProcessor,
    SimpleSpanProcessor,
    SpanExporter,
    SpanExportResult,
)
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from mutirao import Job, JobRecord, JobState, Mutirao, NewJob, Retry, Snooze, chain
from mutirao.errors import ConfigurationError, InvalidJob
from mutirao.tasks.around.middleware import EnqueueSteps
from mutirao.telemetry.opentelemetry import OpenTelemetry
from mutirao.testing import inline
from mutirao.transports.memory import MemoryTransport
from tests.integration.worker.kit import ended, outcomes, working
from tests.support.waiting import until

FACES = ["enqueue", "aenqueue", "enqueue_many", "aenqueue_many"]


@pytest.fixture
def url(lite_url: str) -> str:
    """One database is enough: spans are made outside of it."""
    return lite_url


class Traced:
    """An application whose spans are kept."""

    def __init__(self, app: Mutirao) -> None:
        self.app, self._exporter = app, InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer = self.provider.get_tracer("program")

    def install(self, **options: Any) -> None:
        """Install it in the application."""
        OpenTelemetry(tracer_provider=self.provider, **options).install(self.app)

    def named(self, name: str) -> list[ReadableSpan]:
        """Return the spans of a name that have ended, in the order of their ends."""
        return [span for span in self._exporter.get_finished_spans() if span.name == name]

    def one(self, name: str) -> ReadableSpan:
        """Return the only span of a name."""
        [span] = self.named(name)
        return span

    async def run(self, *ids: int) -> None:
        """Have a worker run these jobs to their ends."""
        async with working(self.app):
            for id in ids:
                await ended(self.app, id)


@pytest.fixture
async def traced(app: Mutirao) -> AsyncIterator[Traced]:
    """An application without tasks, and an SDK for it."""
    traced = Traced(app)
    yield traced
    traced.provider.shutdown()


def place(span: ReadableSpan) -> tuple[int, int]:
    """Return the ids of a span and of its trace."""
    found = span.get_span_context()
    assert found is not None
    return found.trace_id, found.span_id


def parent(span: ReadableSpan) -> tuple[int, int] | None:
    """Return the same of its parent."""
    return None if span.parent is None else (span.parent.trace_id, span.parent.span_id)


def linked(span: ReadableSpan) -> list[tuple[int, int]]:
    """Return the same of those that it is linked to."""
    return [(each.context.trace_id, each.context.span_id) for each in span.links]


def kept_by(job: JobRecord) -> tuple[int, int]:
    """Return the same of the span that a job was enqueued in."""
    version, trace_id, span_id, _ = str(job.traceparent).split("-")
    assert version == "00"
    return int(trace_id, 16), int(span_id, 16)


def told(span: ReadableSpan) -> dict[str, Any]:
    """Return the attributes of a span."""
    return dict(span.attributes or {})


async def enqueue(app: Mutirao, face: str, *jobs: NewJob) -> list[int]:
    """Enqueue through one of the four faces."""
    if face == "enqueue":
        return [app.submit(job).id for job in jobs]
    if face == "aenqueue":
        return [(await app.asubmit(job)).id for job in jobs]
    if face == "enqueue_many":
        return app.enqueue_many(iter(jobs))
    return await app.aenqueue_many(iter(jobs))


class TestEnqueueing:
    """What callers' spans have below them."""

    @pytest.mark.parametrize("face", FACES)
    async def test_a_span_whose_context_the_job_has(self, traced: Traced, face: str) -> None:
        """Of kind producer, below the caller's; the writing is below that, of many of the call."""
        app, many = traced.app, "many" in face
        traced.install()
        current: list[int] = []

        @app.around_enqueue
        def inside(job: NewJob) -> EnqueueSteps:
            current.append(trace.get_current_span().get_span_context().span_id)
            yield job

        @app.task(queue="mail")
        async def send() -> None:
            pass

        with traced.tracer.start_as_current_span("request") as request:
            [id] = await enqueue(app, face, send.job())
            assert trace.get_current_span() is request
        call = traced.one("enqueue mail")
        span = traced.one("create mail") if many else call
        job = await app.ajob(id)
        assert kept_by(job) == place(span)
        assert job.metadata == {}
        assert current == [place(call)[1]]
        assert parent(call) == place(traced.one("request"))
        assert parent(span) == (place(call) if many else place(traced.one("request")))
        assert (span.kind, call.kind) == (
            SpanKind.PRODUCER,
            SpanKind.CLIENT if many else SpanKind.PRODUCER,
        )
        operation = "create" if many else "enqueue"
        assert told(span) == {
            "messaging.system": "mutirao",
            "messaging.operation.name": operation,
            "messaging.operation.type": "create" if many else "send",
            "messaging.destination.name": "mail",
            "messaging.message.id": str(id),
            "messaging.mutirao.task": send.name,
            "messaging.mutirao.how": "inserted",
        }

    @pytest.mark.parametrize("each", [True, False])
    async def test_many(self, traced: Traced, each: bool) -> None:
        """A span of the call, with how many; of each job one, unless that is turned off."""
        app = traced.app
        traced.install(each_of_many=each)
        mail, other = app.task(name="a", queue="mail")(_nothing), app.task(name="b")(_nothing)
        ids = app.enqueue_many([mail.job(), other.job(), mail.job()])
        call = traced.one("enqueue")
        assert told(call)["messaging.batch.message_count"] == 3
        assert "messaging.destination.name" not in told(call)
        spans = [*traced.named("create mail"), *traced.named("create default")]
        kept = {kept_by(await app.ajob(id)) for id in ids}
        assert kept == {place(span) for span in (spans if each else [call])}
        assert {parent(span) for span in spans} == ({place(call)} if each else set())
        assert call.kind is (SpanKind.CLIENT if each else SpanKind.PRODUCER)
        assert len(spans) == (3 if each else 0)

    @pytest.mark.parametrize("face", ["enqueue_graph", "aenqueue_graph"])
    async def test_a_graph(self, traced: Traced, face: str) -> None:
        """Is a call that enqueues many; afterwards the caller's span is the current one again."""
        app = traced.app
        traced.install()
        first, then = app.task(name="first")(_nothing), app.task(name="then")(_nothing)
        with traced.tracer.start_as_current_span("request") as request:
            graph = chain(first.job(), then.job())
            if face == "enqueue_graph":
                app.enqueue_graph(graph)
            else:
                await app.aenqueue_graph(graph)
            assert trace.get_current_span() is request
        call = traced.one("enqueue default")
        assert told(call)["messaging.batch.message_count"] == 2
        assert [parent(each) for each in traced.named("create default")] == [place(call)] * 2
        with traced.tracer.start_as_current_span("request") as request:
            with pytest.raises(InvalidJob):
                app.enqueue_graph(chain(first.job(), NewJob(task="then", priority=10**6)))
            assert trace.get_current_span() is request

    @pytest.mark.parametrize("face", FACES)
    async def test_one_that_fails(self, traced: Traced, face: str) -> None:
        """Is an error, and the caller's span is the current one again."""
        traced.install()
        send = traced.app.task(_nothing)
        outer = trace.get_current_span()
        with pytest.raises(InvalidJob):
            await enqueue(traced.app, face, NewJob(task=send.name, priority=10**6))
        assert trace.get_current_span() is outer
        spans = traced.named("enqueue default") + traced.named("create default")
        assert len(spans) == (2 if "many" in face else 1)
        for span in spans:
            assert span.status.status_code is StatusCode.ERROR
            assert told(span)["error.type"] == "InvalidJob"

    async def test_by_task(self, traced: Traced) -> None:
        """Names may have the task; and a trace that the caller gives is the parent."""
        traced.install(names="task")
        send = traced.app.task(name="send", queue="mail")(_nothing)
        given = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
        id = send.using(traceparent=given).enqueue().id
        await traced.run(id)
        assert parent(traced.one("enqueue send")) == (
            0x4BF92F3577B34DA6A3CE929D0E0E4736,
            0xF067AA0BA902B7,
        )
        assert told(traced.one("process send"))["messaging.destination.name"] == "mail"


class TestAttempts:
    """What handlers have above them."""

    @pytest.mark.parametrize("how", ["link", "parent"])
    async def test_linked_or_below(self, traced: Traced, how: Any) -> None:
        """To the enqueue; what handlers do is below the attempt, in threads and transactions."""
        app = traced.app
        traced.install(attempts=how)
        child = app.task(name="child", queue="children")(_nothing)

        @app.task(queue="loop")
        async def coroutine(job: Job) -> None:
            with traced.tracer.start_as_current_span("in the loop"):
                await child.aenqueue()

        @app.task(queue="thread")
        def plain(job: Job) -> None:
            with job.transaction() as session, traced.tracer.start_as_current_span("in a thread"):
                child.using(conn=session).enqueue()

        ids = [coroutine.enqueue().id, plain.enqueue().id]
        await traced.run(*ids)
        for id, queue, inside in zip(ids, ["loop", "thread"], ["loop", "a thread"], strict=True):
            cause, attempt = traced.one(f"enqueue {queue}"), traced.one(f"process {queue}")
            links = [place(cause)] if how == "link" else []
            assert linked(attempt) == links
            assert parent(attempt) == (None if links else place(cause))
            assert attempt.kind is SpanKind.CONSUMER
            work = traced.one(f"in {inside}" if inside != "loop" else "in the loop")
            assert parent(work) == place(attempt)
            assert place(work) in [parent(each) for each in traced.named("enqueue children")]
            assert told(attempt) == {
                "messaging.system": "mutirao",
                "messaging.operation.name": "process",
                "messaging.operation.type": "process",
                "messaging.destination.name": queue,
                "messaging.message.id": str(id),
                "messaging.mutirao.task": (await app.ajob(id)).task,
                "messaging.mutirao.attempt": 1,
                "messaging.mutirao.run": 1,
                "messaging.mutirao.outcome": "succeeded",
            }
            assert attempt.status.status_code is StatusCode.UNSET

    async def test_of_a_schedule(self, traced: Traced) -> None:
        """A worker made the job of a row, so there is no enqueue to be linked to: but a name."""
        app = traced.app
        traced.install()
        send = app.task(name="send", queue="mail")(_nothing)
        await app.schedules.aput("nightly", send.job(), "0 3 * * *")
        await traced.run((await app.schedules.arun_now("nightly")).id)
        attempt = traced.one("process mail")
        assert told(attempt)["messaging.mutirao.schedule"] == "nightly"
        assert linked(attempt) == []

    @pytest.mark.parametrize(("stacks", "with_stack"), [("last", 1), ("all", 2), ("none", 0)])
    async def test_failures(self, traced: Traced, stacks: Any, with_stack: int) -> None:
        """Each is an error with its type; a stack is recorded of the last one, or as wanted."""
        traced.install(stacks=stacks)

        @traced.app.task(retry=Retry.fixed(2, interval=0))
        def fail() -> None:
            raise ValueError("no such order\nnor any other")

        id = fail.enqueue().id
        await traced.run(id)
        spans = traced.named("process default")
        assert [told(each)["messaging.mutirao.outcome"] for each in spans] == ["retried", "dead"]
        assert linked(spans[0]) == linked(spans[1]) == [place(traced.one("enqueue default"))]
        for span in spans:
            assert span.status.status_code is StatusCode.ERROR
            assert span.status.description == "ValueError: no such order"
            assert told(span)["error.type"] == "ValueError"
        recorded = [event for span in spans for event in span.events]
        assert [len(span.events) for span in spans] == [max(0, with_stack - 1), min(1, with_stack)]
        for event in recorded:
            assert event.name == "exception"
            found = dict(event.attributes or {})
            assert found["exception.type"] == "ValueError"
            assert found["exception.message"] == "no such order\nnor any other"
            assert "in fail" in str(found["exception.stacktrace"])
            assert str(found["exception.stacktrace"]).startswith("Traceback (most recent")

    async def test_what_is_no_failure(self, traced: Traced) -> None:
        """A snooze is none, and another attempt has another span."""
        traced.install()
        signals = [Snooze(0)]

        @traced.app.task
        async def later() -> None:
            for signal in [signals.pop()] if signals else []:
                raise signal

        await traced.run(later.enqueue().id)
        spans = traced.named("process default")
        found = [told(span)["messaging.mutirao.outcome"] for span in spans]
        assert found == ["snoozed", "succeeded"]
        assert {span.status.status_code for span in spans} == {StatusCode.UNSET}

    async def test_baggage_goes_with_the_job(self, traced: Traced) -> None:
        """In the metadata, beside what stands there; and a trace of the user's own stays."""
        traced.install()
        seen: list[Any] = []

        @traced.app.task
        def look(job: Job) -> None:
            seen.append((baggage.get_baggage("customer"), job.metadata))

        token = context.attach(baggage.set_baggage("customer", "acme"))
        try:
            one = look.using(metadata={"by": "me"}).enqueue().id
            own = look.using(metadata={"trace": "mine"}).enqueue().id
        finally:
            context.detach(token)
        await traced.run(one, own)
        kept = {"by": "me", "trace": {"baggage": "customer=acme"}}
        assert sorted(seen, key=str) == [("acme", kept), (None, {"trace": "mine"})]

    async def test_through_a_broker_and_a_topic(self, lite_url: str) -> None:
        """The context goes with the message, and from a publication to its deliveries."""
        broker = MemoryTransport()
        await broker.declare(["mail"])
        app = Mutirao(lite_url, transports={"mail": broker})
        traced = Traced(app)
        traced.install()
        placed = app.topic("order.placed")
        send = app.task(name="send", queue="mail")(_nothing)

        @app.subscriber("report", topic="order.placed", queue="reports")
        async def report(event: dict[str, Any]) -> None:
            pass

        send.enqueue()
        placed.publish({"order_id": 7})
        async with working(app, queues=["mail", "default", "reports"]):
            await until(lambda: traced.named("process mail") and traced.named("process reports"))
        assert linked(traced.one("process mail")) == [place(traced.one("enqueue mail"))]
        published = place(traced.one("enqueue default"))
        assert linked(traced.one("process reports")) == [published]
        await app.aclose()
        app.close()


class Hanging(SpanExporter):
    """An exporter whose collector does not answer."""

    def __init__(self) -> None:
        self.entered, self.released = threading.Event(), threading.Event()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Hang until the test is over."""
        self.entered.set()
        self.released.wait()
        return SpanExportResult.FAILURE


class Broken(SpanProcessor):
    """A processor that raises."""

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        """Raise, if there is a parent."""
        if span.kind is SpanKind.PRODUCER:
            raise RuntimeError("no memory for spans")

    def on_end(self, span: Any) -> None:
        """Raise."""
        raise RuntimeError("no memory for spans")


class TestTroubles:
    """Nothing that makes spans ends or holds up an enqueue or an attempt."""

    async def test_an_exporter_that_hangs(self, app: Mutirao) -> None:
        """It hangs in its own thread, while jobs come and go."""
        exporter, provider = Hanging(), TracerProvider(shutdown_on_exit=False)
        batches = BatchSpanProcessor(exporter, schedule_delay_millis=1, max_export_batch_size=1)
        provider.add_span_processor(batches)
        OpenTelemetry(tracer_provider=provider).install(app)
        send = app.task(_nothing)
        try:
            async with working(app):
                await ended(app, send.enqueue().id)
                await until(exporter.entered.is_set)
                for id in app.enqueue_many(send.job() for _ in range(10)):
                    assert (await ended(app, id)).state is JobState.SUCCEEDED
        finally:
            exporter.released.set()
            provider.shutdown()

    async def test_a_processor_that_raises(
        self, app: Mutirao, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Is logged once a minute."""
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(Broken())
        OpenTelemetry(tracer_provider=provider).install(app)

        @app.task(retry=Retry.fixed(2, interval=0))
        async def fail() -> None:
            raise ValueError("its own")

        with caplog.at_level(logging.ERROR, "mutirao"):
            before = trace.get_current_span()
            one = fail.enqueue().id
            [other] = app.enqueue_many([fail.job()])
            assert trace.get_current_span() is before
            async with working(app):
                for id in (one, other):
                    record = await ended(app, id)
                    assert outcomes(record) == ["retried", "dead"]
                    assert record.attempts[-1].error_type == "ValueError"
        said = [each for each in caplog.records if "OpenTelemetry failed" in each.message]
        assert len(said) <= 1

    async def test_what_cannot_be(self, app: Mutirao) -> None:
        """Twice in one application, or a word that is none."""
        OpenTelemetry().install(app)
        with pytest.raises(ConfigurationError, match="installed in this application already"):
            OpenTelemetry().install(app)
        wrong: Any = "child"
        with pytest.raises(ConfigurationError, match="attempts='child'; expected one of 'link'"):
            OpenTelemetry(attempts=wrong)

    async def test_without_an_sdk(self, app: Mutirao) -> None:
        """Nothing is made, and a trace that the caller gives goes on."""
        OpenTelemetry().install(app)
        seen: list[str | None] = []

        @app.task
        def look(job: Job) -> None:
            seen.append(job.traceparent)

        given = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
        async with working(app):
            await ended(app, look.enqueue().id)
            await ended(app, look.using(traceparent=given).enqueue().id)
        assert seen == [None, given]

    def test_called_at_once(self, traced: Traced) -> None:
        """In tests that run jobs where they are enqueued, below the enqueue's span."""
        traced.install(attempts="parent")
        send = traced.app.task(_nothing)
        with inline(traced.app):
            send.enqueue()
        assert parent(traced.one("process default")) == place(traced.one("enqueue default"))


def _nothing() -> None:
    pass
