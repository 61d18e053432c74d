"""What Sentry is sent, as a transport has it that collects envelopes. No network."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
import sentry_sdk
from sentry_sdk.envelope import Envelope
from sentry_sdk.integrations.logging import LoggingIntegration
from sentry_sdk.transport import Transport

from mutirao import Cancel, Dead, Job, Mutirao, NewJob, Retry, Snooze
from mutirao.errors import ConfigurationError, InvalidJob
from mutirao.tasks.around.middleware import AttemptSteps
from mutirao.telemetry.sentry import Sentry
from mutirao.telemetry.sentry_crons import config_of, slug_of
from mutirao.transports.memory import MemoryTransport
from tests.integration.telemetry import children
from tests.integration.worker.kit import ended, outcomes, working
from tests.support.waiting import until

FACES = ["enqueue", "aenqueue", "enqueue_many", "aenqueue_many"]
DSN = "http://public@127.0.0.1:9/1"


@pytest.fixture
def url(lite_url: str) -> str:
    """One database is enough: Sentry is told outside of it."""
    return lite_url


class Collecting(Transport):
    """A transport that keeps what it is to send."""

    def __init__(self) -> None:
        super().__init__()
        self.items: list[tuple[str, Any]] = []
        self.fails = False

    def capture_envelope(self, envelope: Envelope) -> None:
        """Keep the items of an envelope, or fail."""
        if self.fails:
            raise RuntimeError("no way out")
        for item in envelope.items:
            self.items.append((str(item.type), item.payload.json))

    def of(self, kind: str) -> list[Any]:
        """Return the items of a type: event, transaction, check_in."""
        return [body for type, body in self.items if type == kind]


@pytest.fixture
def sent() -> Iterator[Collecting]:
    """Sentry's SDK, which sends to a list, until the test is over."""
    with started() as transport:
        yield transport


@contextmanager
def started(**options: Any) -> Iterator[Collecting]:
    """Have the SDK, with these options, in a block."""
    usual: dict[str, Any] = {"default_integrations": False, "auto_enabling_integrations": False}
    transport = Collecting()
    sentry_sdk.init(DSN, transport=transport, traces_sample_rate=1.0, **usual, **options)
    try:
        yield transport
    finally:
        close()


def close() -> None:
    """End the SDK, and forget what it was told."""
    sentry_sdk.get_client().close(timeout=0)
    sentry_sdk.get_global_scope().set_client(None)
    sentry_sdk.get_global_scope().clear()
    sentry_sdk.get_isolation_scope().clear()
    sentry_sdk.get_current_scope().clear()


async def enqueue(app: Mutirao, face: str, *jobs: NewJob) -> list[int]:
    """Enqueue through one of the four faces."""
    if face == "enqueue":
        return [app.submit(job).id for job in jobs]
    if face == "aenqueue":
        return [(await app.asubmit(job)).id for job in jobs]
    if face == "enqueue_many":
        return app.enqueue_many(iter(jobs))
    return await app.aenqueue_many(iter(jobs))


async def run(app: Mutirao, *ids: int) -> None:
    """Have a worker run these jobs to their ends."""
    async with working(app):
        for id in ids:
            await ended(app, id)


class TestEvents:
    """Issues."""

    async def test_only_of_a_death(self, app: Mutirao, sent: Collecting) -> None:
        """With the exception, its variables, earlier failures, and what the handler left."""
        Sentry().install(app)

        @app.task(name="send", queue="mail", retry=Retry.fixed(3, interval=0))
        def send(job: Job, to: str, password: str) -> None:
            sentry_sdk.add_breadcrumb(message=f"looking {to} up")
            sentry_sdk.set_tag("customer", "acme")
            raise ValueError(f"no address for {to} in attempt {job.attempt}")

        id = send.using(tenant="acme").enqueue("Ana", "hide me").id
        await run(app, id)
        [event] = sent.of("event")
        [error] = event["exception"]["values"]
        assert (error["type"], error["value"]) == ("ValueError", "no address for Ana in attempt 3")
        assert error["mechanism"] == {"type": "mutirao", "handled": False}
        assert error["stacktrace"]["frames"][-1]["function"] == "send"
        assert error["stacktrace"]["frames"][-1]["vars"]["to"] == "'Ana'"
        assert event["level"] == "error"
        assert event["fingerprint"] == ["{{ default }}", "send"]
        assert event["transaction"] == "send"
        assert event["tags"] == {
            "task": "send", "queue": "mail", "job": str(id), "tenant": "acme", "customer": "acme",
        }  # fmt: skip
        told = event["contexts"]["job"]
        assert (told["attempt"], told["max_attempts"], told["id"]) == (3, 3, str(id))
        assert "args" not in told
        assert [each["message"] for each in event["breadcrumbs"]["values"]] == [
            "attempt 1 failed: ValueError: no address for Ana in attempt 1",
            "attempt 2 failed: ValueError: no address for Ana in attempt 2",
            "looking Ana up",
        ]
        last = sent.of("transaction")[-1]
        assert event["contexts"]["trace"]["trace_id"] == last["contexts"]["trace"]["trace_id"]
        assert sentry_sdk.get_isolation_scope()._tags == {}

    @pytest.mark.parametrize(
        ("events", "levels"), [("all", ["warning", "error"]), ("none", []), ("dead", ["error"])]
    )
    async def test_options(
        self, app: Mutirao, sent: Collecting, events: Any, levels: list[str]
    ) -> None:
        """Of each failure, or of none; without breadcrumbs; with arguments, but for secrets."""
        Sentry(events=events, breadcrumbs=False, args=True).install(app)

        @app.task(retry=Retry.fixed(2, interval=0))
        async def send(to: str, password: str) -> None:
            raise ValueError("no")

        await run(app, send.enqueue("Ana", "hide me").id)
        found = sent.of("event")
        assert [each["level"] for each in found] == levels
        for each in found:
            args = each["contexts"]["job"]["args"]
            assert (args["to"], "hide me" in str(args)) == ("Ana", False)
            assert not each.get("breadcrumbs", {}).get("values")

    async def test_without_its_exception(self, app: Mutirao, sent: Collecting) -> None:
        """Of a child process, which has it, there is the stack; of `Dead` what the handler said."""
        Sentry().install(app)
        app.register(children.fail_apart)

        @app.task
        async def refuse() -> None:
            raise Dead("not wanted any more")

        await run(app, app.submit(children.fail_apart.job()).id, refuse.enqueue().id)
        apart, refused = sorted(sent.of("event"), key=lambda event: int(event["tags"]["job"]))
        [error] = apart["exception"]["values"]
        assert (error["type"], error["value"]) == ("ValueError", "no such local")
        frame = error["stacktrace"]["frames"][-1]
        assert (frame["function"], frame["in_app"]) == ("fail_apart", True)
        assert "raise ValueError" in frame["context_line"]
        [error] = refused["exception"]["values"]
        assert (error["type"], error["value"]) == ("Dead", "not wanted any more")

    async def test_what_is_no_failure(self, app: Mutirao, sent: Collecting) -> None:
        """A snooze and a cancellation are none."""
        Sentry(events="all").install(app)
        signals = [Cancel("enough"), Snooze(0)]

        @app.task
        async def later() -> None:
            raise signals.pop()

        await run(app, later.enqueue().id)
        assert sent.of("event") == []
        assert [each["contexts"]["trace"]["status"] for each in sent.of("transaction")] == [
            "aborted", "aborted",
        ]  # fmt: skip

    async def test_attempts_at_once(self, app: Mutirao, sent: Collecting) -> None:
        """Each has a scope of its own, in the loop and in threads."""
        Sentry().install(app)

        @app.task(max_attempts=1)
        async def coroutine(n: int) -> None:
            sentry_sdk.set_tag("own", str(n))
            await until(lambda: len(begun) == 4)
            raise ValueError("no")

        @app.task(max_attempts=1)
        def plain(n: int) -> None:
            sentry_sdk.set_tag("own", str(n))
            raise ValueError("no")

        begun: list[int] = []

        @app.around_attempt
        def count(job: Job) -> AttemptSteps:
            begun.append(job.id)
            yield

        jobs = [coroutine.job(1), coroutine.job(2), plain.job(3), plain.job(4)]
        ids = app.enqueue_many(jobs)
        await run(app, *ids)
        found = {each["tags"]["job"]: each["tags"]["own"] for each in sent.of("event")}
        assert found == {str(id): str(n) for n, id in enumerate(ids, 1)}

    async def test_the_log_of_a_death_is_no_second_event(self, app: Mutirao) -> None:
        """Though the SDK makes events of what is logged as an error, and of others of ours."""
        integrations = [LoggingIntegration()]
        with started(integrations=integrations) as sent:
            Sentry().install(app)

            @app.task(max_attempts=1)
            def fail() -> None:
                logging.getLogger("mutirao.shop").error("the handler's own")
                raise ValueError("no")

            await run(app, fail.enqueue().id)
            said = [
                each["exception"]["values"][0]["type"] if "exception" in each
                else each["logentry"]["message"]
                for each in sent.of("event")
            ]  # fmt: skip
        assert said == ["the handler's own", "ValueError"]


class TestTraces:
    """Transactions, and the trace that goes with a job."""

    @pytest.mark.parametrize("face", FACES)
    async def test_from_an_enqueue_to_an_attempt(
        self, app: Mutirao, sent: Collecting, face: str
    ) -> None:
        """One trace, with the spans of queues in Sentry's own words."""
        Sentry().install(app)

        @app.task(name="send", queue="mail")
        async def send() -> None:
            with sentry_sdk.start_span(op="db", name="look up"):
                pass

        with sentry_sdk.start_transaction(name="request", op="http.server") as request:
            ids = await enqueue(app, face, send.job())
        await run(app, *ids)
        asked, done = sent.of("transaction")
        [publish] = asked["spans"]
        many = "many" in face
        assert publish["op"] == "queue.publish"
        assert publish["description"] == ("enqueue_many" if many else "send")
        assert publish["data"]["messaging.destination.name"] == "mail"
        if many:
            assert publish["data"]["messaging.batch.message_count"] == 1
        else:
            assert publish["data"]["messaging.message.id"] == str(ids[0])
        trace = done["contexts"]["trace"]
        assert (done["transaction"], done["transaction_info"]) == ("send", {"source": "task"})
        assert (trace["op"], trace["origin"]) == ("queue.task.mutirao", "auto.queue.mutirao")
        assert (trace["trace_id"], trace["parent_span_id"]) == (
            request.trace_id,
            publish["span_id"],
        )
        assert trace["status"] == "ok"
        process, look_up = done["spans"]
        assert (process["op"], process["status"]) == ("queue.process", "ok")
        assert look_up["parent_span_id"] == process["span_id"]
        data = process["data"]
        assert data["messaging.message.receive.latency"] >= 0
        assert data["messaging.message.retry.count"] == 0
        assert data["messaging.message.id"] == str(ids[0])
        job = await app.ajob(ids[0])
        assert set(job.metadata["trace"]) == {"sentry-trace", "baggage"}
        assert str(job.traceparent).split("-")[1] == request.trace_id

    async def test_without_a_span_nothing_is_carried(self, app: Mutirao, sent: Collecting) -> None:
        """All jobs of a program without transactions would be one trace."""
        Sentry().install(app)
        send = app.task(_nothing)
        ids = [send.enqueue().id, *app.enqueue_many([send.job()])]
        for id in ids:
            job = await app.ajob(id)
            assert (job.metadata, job.traceparent) == ({}, None)
        await run(app, *ids)
        first, second = sent.of("transaction")
        assert first["contexts"]["trace"]["trace_id"] != second["contexts"]["trace"]["trace_id"]

    async def test_a_failed_enqueue(self, app: Mutirao, sent: Collecting) -> None:
        """Is one of the span."""
        Sentry().install(app)
        send = app.task(_nothing)
        with sentry_sdk.start_transaction(name="request"):
            with pytest.raises(InvalidJob):
                app.submit(NewJob(task=send.name, priority=10**6))
            with pytest.raises(InvalidJob):
                app.enqueue_many([NewJob(task=send.name, priority=10**6)])
        [asked] = sent.of("transaction")
        assert [each["status"] for each in asked["spans"]] == ["internal_error"] * 2

    async def test_within_the_span_of_a_framework(self, app: Mutirao, sent: Collecting) -> None:
        """Sentry's Django integration has one around `Task.enqueue`: that one is told instead."""
        Sentry().install(app)
        send = app.task(_nothing)
        with sentry_sdk.start_transaction(name="request"):
            with sentry_sdk.start_span(op="queue.submit.django", name="send") as span:
                id = send.enqueue().id
            assert sentry_sdk.get_current_span() is not span
        await run(app, id)
        asked, done = sent.of("transaction")
        [only] = asked["spans"]
        assert only["op"] == "queue.submit.django"
        assert only["data"]["messaging.message.id"] == str(id)
        assert done["contexts"]["trace"]["parent_span_id"] == only["span_id"]

    async def test_in_a_stream(self, app: Mutirao) -> None:
        """Of programs that chose spans in a stream, in place of transactions."""
        from sentry_sdk import traces

        with started(_experiments={"trace_lifecycle": "stream"}) as sent:
            Sentry().install(app)

            @app.task(name="send", queue="mail", max_attempts=1)
            async def send() -> None:
                raise ValueError("no")

            with traces.start_span(name="request", parent_span=None):
                id = send.enqueue().id
            await run(app, id)
            sentry_sdk.flush()
            found = [span for body in sent.of("span") for span in body["items"]]
        names = [span["name"] for span in found]
        by_op = {
            span["attributes"]["sentry.op"]["value"]: span
            for span in found
            if "sentry.op" in span["attributes"]
        }
        assert sorted(names) == ["request", "send", "send", "send"]
        assert set(by_op) == {"queue.publish", "queue.process", "queue.task.mutirao"}
        assert len({span["trace_id"] for span in found}) == 1
        assert by_op["queue.task.mutirao"]["status"] == "error"
        [event] = sent.of("event")
        assert event["exception"]["values"][0]["value"] == "no"

    async def test_through_a_broker_and_to_a_subscription(
        self, lite_url: str, sent: Collecting
    ) -> None:
        """With the message; and to deliveries by the W3C context, which they have."""
        broker = MemoryTransport()
        await broker.declare(["mail"])
        app = Mutirao(lite_url, transports={"mail": broker})
        Sentry().install(app)
        placed = app.topic("order.placed")
        send = app.task(name="send", queue="mail")(_nothing)

        @app.subscriber("report", topic="order.placed", queue="reports")
        async def report(event: dict[str, Any]) -> None:
            pass

        with sentry_sdk.start_transaction(name="request") as request:
            send.enqueue()
            placed.publish({"order_id": 7})
        async with working(app, queues=["mail", "default", "reports"]):
            await until(lambda: len(sent.of("transaction")) == 4)
        found = {each["transaction"]: each["contexts"]["trace"] for each in sent.of("transaction")}
        assert set(found) == {"request", "send", "topic:order.placed", "report"}
        assert {each["trace_id"] for each in found.values()} == {request.trace_id}
        await app.aclose()
        app.close()


class TestCheckIns:
    """Crons."""

    async def test_of_a_tick(self, app: Mutirao, sent: Collecting) -> None:
        """Begun once, and over once, with one id, whatever is tried again between."""
        Sentry(monitor={"max_runtime": 60}).install(app)
        errors: list[Exception] = [ValueError("no")]

        @app.schedule("30 3 * * *", timezone="Europe/Berlin", name="Close the day!")
        @app.task(retry=Retry.fixed(2, interval=0))
        def close_day() -> None:
            for error in errors[:1]:
                errors.pop()
                raise error

        @app.schedule(every=timedelta(hours=36))
        @app.task(max_attempts=1)
        def fail() -> None:
            raise ValueError("no")

        async with working(app):
            await until(lambda: _are_declared(app, 2))
            for name in ("Close the day!", fail.name):
                id = (await app.schedules.arun_now(name)).id
                await ended(app, id)
        first, done, second, failed = sent.of("check_in")
        assert [each["status"] for each in (first, done)] == ["in_progress", "ok"]
        assert first["check_in_id"] == done["check_in_id"] != second["check_in_id"]
        assert first["monitor_slug"] == "close-the-day"
        assert first["monitor_config"] == {
            "schedule": {"type": "crontab", "value": "30 3 * * *"},
            "timezone": "Europe/Berlin",
            "max_runtime": 60,
        }
        assert done["duration"] is None
        assert (second["status"], failed["status"]) == ("in_progress", "error")
        assert second["monitor_config"]["schedule"] == {
            "type": "interval", "value": 36, "unit": "hour",
        }  # fmt: skip
        assert failed["duration"] >= 0

    async def test_of_others(self, app: Mutirao, sent: Collecting) -> None:
        """One put at run time has what is in the database; other jobs, each few seconds: none."""
        Sentry().install(app)
        send = app.task(_nothing)
        app.schedules.put("nightly", send.job(), "0 3 * * *")
        app.schedule(every=20, name="often")(send)
        async with working(app):
            await until(lambda: _are_declared(app, 2))
            for id in (send.enqueue().id, (await app.schedules.arun_now("often")).id):
                await ended(app, id)
            await ended(app, (await app.schedules.arun_now("nightly")).id)
            assert "monitor_config" not in sent.of("check_in")[0]  # nothing waits for it

            async def known() -> bool:
                await ended(app, (await app.schedules.arun_now("nightly")).id)
                return "monitor_config" in sent.of("check_in")[-1]

            await until(known)
        assert {each["monitor_slug"] for each in sent.of("check_in")} == {"nightly"}
        assert sent.of("check_in")[-1]["monitor_config"] == {
            "schedule": {"type": "crontab", "value": "0 3 * * *"},
            "timezone": "UTC",
        }
        app.schedules.put("hourly", send.job(), every=5400)
        [hourly] = [each for each in await app.schedules.alist() if each.name == "hourly"]
        assert config_of(hourly) == {
            "schedule": {"type": "interval", "value": 90, "unit": "minute"},
        }

    def test_words(self, app: Mutirao) -> None:
        """Intervals in the largest unit; names in the letters that monitors have."""
        task = app.task(_nothing)
        for every in (timedelta(days=14), timedelta(days=1), 90 * 60, 60, 1.5):
            app.schedule(every=every, name=str(every))(task)
        app.schedule("*/5 * * * * *", name="seconds")(task)
        found = [config_of(schedule) for schedule, *_ in app.schedules.in_code]
        kinds = [each and tuple(each["schedule"].values())[1:] for each in found]
        assert kinds == [(2, "week"), (1, "day"), (90, "minute"), (1, "minute"), None, None]
        assert slug_of("Fechar o dia às 3h") == "fechar-o-dia-s-3h"
        assert slug_of("!") == "schedule"
        long = slug_of("x" * 60), slug_of("x" * 61)
        assert (len(long[0]), long[0] == long[1]) == (50, False)

    async def test_turned_off(self, app: Mutirao, sent: Collecting) -> None:
        """Then nothing checks in."""
        Sentry(crons=False).install(app)
        send = app.task(_nothing)
        app.schedule("0 3 * * *", name="nightly")(send)
        async with working(app):
            await until(lambda: _are_declared(app, 1))
            await ended(app, (await app.schedules.arun_now("nightly")).id)
        assert sent.of("check_in") == []


class TestTroubles:
    """Nothing of Sentry ends or holds up an enqueue or an attempt."""

    async def test_a_transport_that_raises(
        self, app: Mutirao, sent: Collecting, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Is logged, and the attempts end as they would."""
        Sentry(events="all").install(app)
        sent.fails = True

        @app.task(retry=Retry.fixed(2, interval=0))
        def fail() -> None:
            raise ValueError("its own")

        app.schedule("0 3 * * *", name="nightly")(fail)
        async with working(app):
            await until(lambda: _are_declared(app, 1))
            for id in (fail.enqueue().id, (await app.schedules.arun_now("nightly")).id):
                record = await ended(app, id)
                assert outcomes(record) == ["retried", "dead"]
                assert record.attempts[-1].error_type == "ValueError"
        sent.fails = False
        said = [each for each in caplog.records if "Sentry failed" in each.message]
        assert len(said) == 1

    async def test_a_server_that_does_not_answer(self, app: Mutirao) -> None:
        """Sentry's own transport hangs in its own thread, while jobs come, die and go."""
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
            sentry_sdk.init(f"http://public@127.0.0.1:{port}/1", default_integrations=False)
            try:
                Sentry().install(app)
                fail = app.task(max_attempts=1, name="fail")(_nothing_there)
                async with working(app):
                    await ended(app, fail.enqueue().id)
                    asked, _ = await asyncio.to_thread(server.accept)
                    for id in app.enqueue_many(fail.job() for _ in range(10)):
                        assert outcomes(await ended(app, id)) == ["dead"]
                asked.close()
            finally:
                close()

    async def test_before_it_is_set_up(self, app: Mutirao) -> None:
        """Nothing is made, and nothing is carried."""
        Sentry().install(app)
        send = app.task(_nothing)
        ids = [send.enqueue().id, *app.enqueue_many([send.job()])]
        await run(app, *ids)
        assert [(await app.ajob(id)).metadata for id in ids] == [{}, {}]

    async def test_what_cannot_be(self, app: Mutirao) -> None:
        """Twice in one application, or a word that is none."""
        Sentry().install(app)
        with pytest.raises(ConfigurationError, match="installed in this application already"):
            Sentry().install(app)
        wrong: Any = "retried"
        with pytest.raises(ConfigurationError, match="events='retried'; expected one of 'dead'"):
            Sentry(events=wrong)


async def _are_declared(app: Mutirao, number: int) -> bool:
    return len(await app.schedules.alist()) == number


def _nothing() -> None:
    pass


def _nothing_there() -> None:
    raise LookupError("nothing there")


@pytest.fixture(autouse=True)
async def as_it_was() -> AsyncIterator[None]:
    """Leave no client of Sentry behind."""
    yield
    assert not sentry_sdk.is_initialized()
