"""Deliveries to real servers: signed, tried again, held while the peer is down, and kept."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import create_engine, text
from standardwebhooks import Webhook

from mutirao import Job, Mutirao, Retry
from mutirao.client import endpoints
from mutirao.errors import (
    ConfigurationError,
    InvalidEndpoint,
    InvalidFilter,
    UnknownEndpoint,
    WrongSignature,
)
from mutirao.model.jobs.job import JobState
from mutirao.model.trace import hand_trace
from mutirao.model.webhooks.endpoints import Endpoint
from mutirao.tasks.around.middleware import AttemptSteps
from mutirao.webhooks import (
    BreakerTerms,
    Secret,
    WebhookSettings,
    averify,
    deliveries,
    new_secret,
    sign,
    silence,
    verify,
)
from tests.support.waiting import until
from tests.support.webhooks import OK, Peer, Server, answering, saying, serving, silent

pytestmark = pytest.mark.repeats("mysql", decided="tests/conformance/test_mariadb.py")

NO = b"HTTP/1.1 500 No\r\nContent-Length: 5\r\n\r\nnever"
GONE = b"HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n"
BUSY = b"HTTP/1.1 429 Busy\r\nRetry-After: 3600\r\nContent-Length: 0\r\n\r\n"
TERMS = BreakerTerms(failures=3, first_wait=3_600.0)
SETTINGS = WebhookSettings(
    schemes=["http"], ports=range(1024, 65_536), networks=["127.0.0.0/8"], breakers=TERMS
)
SECRET = new_secret()


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the second attempt follow at once, and the third one never."""
    monkeypatch.setattr(deliveries, "SCHEDULE", (0.01, 10**6))


@asynccontextmanager
async def shop(url: str) -> AsyncIterator[Mutirao]:
    """Open an application with a topic."""
    app = Mutirao(url)
    app.topic("order.placed")
    try:
        yield app
    finally:
        await app.aclose()


async def publish(app: Mutirao, count: int = 1) -> None:
    """Publish orders, numbered from 1."""
    topic: Any = app.tasks["topic:order.placed"]
    await topic.apublish_many([{"order_id": n} for n in range(1, count + 1)])


async def rests(app: Mutirao, endpoint: str, number: int) -> bool:
    """Return whether so many deliveries for an endpoint are held, or wait for another attempt."""
    jobs = await app.ajobs(task="mutirao.webhook", args={"endpoint": endpoint})
    waits = (JobState.BLOCKED, JobState.SCHEDULED)
    return len(jobs) == number and all(job.state in waits for job in jobs)


async def put(app: Mutirao, id: str, server: Server, **terms: Any) -> None:
    """Put an endpoint that wants orders."""
    url = server.url("/hook?secret")
    await app.endpoints.aput(id, url, ["order.*", "order.placed"], **{"secret": SECRET, **terms})


def parsed(request: bytes) -> tuple[dict[str, str], bytes]:
    """Return headers, in small letters, and body of a request."""
    head, _, body = request.partition(b"\r\n\r\n")
    lines = [line.decode().partition(": ") for line in head.split(b"\r\n")[1:]]
    return {name.lower(): value for name, _, value in lines}, body


def ended(app: Mutirao, state: str, count: int) -> Callable[[], Awaitable[bool]]:
    """Return whether so many deliveries are in a state."""

    async def have() -> bool:
        found = await app.ajobs(task="mutirao.webhook", state=state, limit=None)
        return len(found) >= count

    return have


def opened(app: Mutirao, id: str) -> Callable[[], Awaitable[bool]]:
    """Return whether the breaker of an endpoint is open."""

    async def is_open() -> bool:
        return (await app.endpoints.aget(id)).breaker == "open"

    return is_open


def rows(url: str, sql: str) -> list[Any]:
    """Return what a query finds."""
    engine = create_engine(url)
    with engine.connect() as conn:
        found = [tuple(row) for row in conn.execute(text(sql))]
    engine.dispose()
    return found


async def test_a_delivery(migrated_url: str) -> None:
    """One request for two patterns that match; the next attempt has the same id and bytes.

    A receiver's library verifies both; a worker without an application has sent them.
    """
    async with shop(migrated_url) as app, serving(answering(NO, OK)) as server:
        await put(app, "erp", server, headers={"X-Token": "hide me"})
        async with app.worker(poll=0.05):
            await publish(app)
            await until(ended(app, "ready", 1))
        async with shop(migrated_url) as bare:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(bare, "_tasks", {})
                async with bare.worker(queues=["webhooks"], webhooks=SETTINGS, poll=0.05):
                    await until(ended(app, "succeeded", 1))
    first, second = map(parsed, server.requests)
    assert first[1] == second[1]
    assert first[0]["webhook-id"] == second[0]["webhook-id"]
    for headers, body in (first, second):
        found = Webhook(SECRET).verify(body, headers)
        assert (found["type"], found["data"]) == ("order.placed", {"order_id": 1})
    shown = await asyncio.to_thread(
        rows, migrated_url, "SELECT * FROM mutirao_webhook_attempts ORDER BY run"
    )
    kept = await asyncio.to_thread(
        rows,
        migrated_url,
        "SELECT status, failure, body, endpoint, address, publication"
        " FROM mutirao_webhook_attempts ORDER BY run",
    )
    place = f"127.0.0.1:{server.port}"
    assert [row[:5] for row in kept] == [
        (500, None, "never", "erp", place), (200, None, "ok", "erp", place),
    ]  # fmt: skip
    assert kept[0][5] == kept[1][5] is not None
    assert "hide me" not in repr(shown)
    assert "secret" not in repr(shown)
    assert '"***"' in repr(shown)


async def test_a_trace_for_who_asks(migrated_sqlite_url: str) -> None:
    """An endpoint that asks for it gets the publication's, or the attempt's; else nothing is sent.

    A header that cannot be filled is left out.
    """
    trace, attempt = ("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "00-1-2-01")
    asked = {"Traceparent": "{traceparent}", "baggage": "{baggage}", "X-Other": "{traceparent}"}
    async with shop(migrated_sqlite_url) as app, serving(answering(OK)) as server:
        await put(app, "asks", server, headers=asked)
        await put(app, "asks-not", server)
        topic: Any = app.tasks["topic:order.placed"]
        await topic.apublish({"order_id": 1}, traceparent=trace)
        async with app.worker(webhooks=SETTINGS, poll=0.05):
            await until(ended(app, "succeeded", 2))

            @app.around_attempt
            def traced(job: Job) -> AttemptSteps:
                hand_trace({"traceparent": attempt, "baggage": "a=1"})
                yield

        async with app.worker(webhooks=SETTINGS, poll=0.05):
            await topic.apublish({"order_id": 2}, traceparent=trace)
            await until(ended(app, "succeeded", 4))
    names = ("traceparent", "baggage", "x-other")
    sent = [tuple(parsed(each)[0].get(name) for name in names) for each in server.requests]
    nothing = (None, None, None)
    assert sorted(sent[:2], key=str) == [(trace, None, "{traceparent}"), nothing]
    assert sorted(sent[2:], key=str) == [(attempt, "a=1", "{traceparent}"), nothing]


async def test_beside_a_peer_that_is_down(
    migrated_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is for it is held after three attempts; it comes back, and gets all in order."""
    monkeypatch.setattr(deliveries, "SCHEDULE", (0.01, 0.01, 10**6))  # these may be of two jobs
    back = asyncio.Event()

    async def down(peer: Peer) -> None:
        await (answering() if back.is_set() else silent)(peer)

    async with (
        shop(migrated_url) as app,
        serving(down, address="127.0.0.2") as hole,
        serving(answering()) as healthy,
    ):
        await put(app, "hole", hole, first_byte=0.2, concurrency=1)
        await put(app, "healthy", healthy)
        await publish(app, 12)
        async with app.worker(webhooks=SETTINGS, poll=0.05, log_jobs="failures"):
            await until(ended(app, "succeeded", 12))
            await until(opened(app, "hole"))
            await until(lambda: rests(app, "hole", 12))
            assert len(healthy.requests) == 12
            asked = len(hole.requests)
            assert asked <= TERMS.failures + 1
            back.set()
            assert await app.endpoints.aprobe("hole")
            await until(ended(app, "succeeded", 24))
        fresh = [
            job
            for job in await app.ajobs(task="mutirao.webhook", args={"endpoint": "hole"})
            if job.attempt == 1
        ]
    sent = [int(parsed(each)[0]["webhook-id"].partition("_")[0]) for each in hole.requests[asked:]]
    order = sorted(job.metadata["publication"] for job in fresh)
    assert [id for id in sent if id in order] == order


async def test_slots_that_wait_for_a_silent_peer(
    migrated_sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others have them, long before its timeouts."""
    monkeypatch.setattr(silence, "LEAST", 0.05)
    monkeypatch.setattr(silence, "LOOK_EVERY", 0.02)
    async with (
        shop(migrated_sqlite_url) as app,
        serving(silent, address="127.0.0.2") as hole,
        serving(answering()) as healthy,
    ):
        await put(app, "hole", hole, first_byte=600.0, whole=600.0, concurrency=2)
        await publish(app, 2)
        async with app.worker(webhooks=SETTINGS, concurrency=2, poll=0.05, grace=0.0):
            await until(lambda: hole.connections == 2)
            await put(app, "healthy", healthy)
            await publish(app, 3)
            await until(lambda: len(healthy.requests) == 3)
            await until(ended(app, "succeeded", 3))


@pytest.mark.parametrize("answer", [BUSY, GONE], ids=["busy", "gone"])
async def test_answers_that_say_more(migrated_sqlite_url: str, answer: bytes) -> None:
    """429 holds the others without a failure; 410 disables, and a subscriber is told."""
    received: list[Any] = []
    async with shop(migrated_sqlite_url) as app, serving(answering(answer)) as server:

        @app.subscriber("owner", topic="mutirao.endpoint.disabled")
        async def owner(event: dict[str, Any]) -> None:
            received.append(event["endpoint"])

        await put(app, "erp", server, concurrency=1)
        await publish(app, 3)
        async with app.worker(webhooks=SETTINGS, poll=0.05):
            await until(opened(app, "erp") if answer is BUSY else lambda: received == ["erp"])
            await until(ended(app, "blocked", 2))
        assert (await app.endpoints.aget("erp")).active is (answer is BUSY)
        assert len(server.requests) == 1
        [job] = [each for each in await app.ajobs(task="mutirao.webhook") if each.attempt]
        assert job.state is (JobState.SCHEDULED if answer is BUSY else JobState.DEAD)


async def test_dead_ones_are_replayed(
    migrated_sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As new jobs with the same webhook id, which the application's own signer has signed."""
    monkeypatch.setattr(deliveries, "POLICY", Retry.never())
    async with shop(migrated_sqlite_url) as app, serving(answering(NO, NO, OK)) as server:

        @app.signer("old")
        def sign(
            method: str, url: str, headers: Mapping[str, str], body: bytes
        ) -> Mapping[str, str]:
            return {"X-Signed": f"{method} {len(body)}"}

        await put(app, "erp", server, secret=None, signer="old", concurrency=1)
        await publish(app, 2)
        async with app.worker(webhooks=SETTINGS, poll=0.05):
            await until(ended(app, "dead", 2))
            again = await app.endpoints.areplay("erp")
            await until(ended(app, "succeeded", 2))
            assert await app.endpoints.areplay("erp") == []
            sample = await app.endpoints.atest("erp")
            await until(ended(app, "succeeded", 3))
    assert len(again) == 2
    sent = [parsed(each)[0] for each in server.requests]
    assert sent[0]["webhook-id"] == sent[2]["webhook-id"]
    assert sent[1]["webhook-id"] == sent[3]["webhook-id"]
    assert sent[4]["webhook-id"] == f"test_{sample.id}_erp"
    assert [each["x-signed"] for each in sent] == [
        f"POST {each['content-length']}" for each in sent
    ]


async def test_a_probe_that_fails(
    migrated_sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is tried again, whatever the application says of its tasks: nothing else ends the wait."""

    async def fails(self: object, kind: str, key: str, heard: bool = False) -> None:
        raise ConnectionError("the database is away")

    monkeypatch.setattr(deliveries.Deliveries, "probe", fails)
    app = Mutirao(migrated_sqlite_url, retry=Retry.never())
    app.topic("order.placed")
    async with serving(answering(NO)) as server:
        await put(app, "erp", server)
        await publish(app, 3)
        async with app.worker(webhooks=SETTINGS, poll=0.05):
            await until(opened(app, "erp"))
            await app.endpoints.aheard_from("erp")

            async def tried() -> bool:
                found = await app.ajobs(task="mutirao.webhook_probe", args={"heard": True})
                return any(job.error for job in found)

            await until(tried)
            [probe] = await app.ajobs(task="mutirao.webhook_probe", args={"heard": True})
            assert probe.state is JobState.SCHEDULED
    await app.aclose()


async def test_what_is_sent_again_is_sent_once(
    migrated_sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However soon it arrives, while others are still looked for."""
    monkeypatch.setattr(endpoints, "REPLAYED_AT_ONCE", 1)
    made = 2
    async with shop(migrated_sqlite_url) as app, serving(answering(OK)) as server:
        redrive = app.aredrive

        async def and_wait(*ids: int, **which: Any) -> list[int]:
            nonlocal made
            again = await redrive(*ids, **which)
            made += len(again)
            assert made <= 4
            await until(ended(app, "succeeded", made))
            return again

        monkeypatch.setattr(app, "aredrive", and_wait)
        await put(app, "erp", server)
        await publish(app, 2)
        async with app.worker(webhooks=SETTINGS, poll=0.05):
            await until(ended(app, "succeeded", 2))
            assert len(await app.endpoints.areplay("erp", state="succeeded")) == 2
    assert len(server.requests) == 4


async def test_what_cannot_be_asked(migrated_sqlite_url: str) -> None:
    """A time that no calendar has; deliveries that have not ended."""
    async with shop(migrated_sqlite_url) as app:
        await app.endpoints.aput("erp", "https://example.org/", "order.*", secret=SECRET)
        with pytest.raises(InvalidEndpoint, match="keep is 1000000000000000; give"):
            await app.endpoints.arotate("erp", SECRET, keep=10**15)
        running: Any = "running"
        with pytest.raises(InvalidFilter, match="state is 'running'; give 'dead'"):
            await app.endpoints.areplay("erp", state=running)


async def test_one_is_changed(migrated_sqlite_url: str) -> None:
    """What is given; its secret stays, unless another or a signer takes its place."""
    async with shop(migrated_sqlite_url) as app:
        await app.endpoints.aput(
            "erp", "https://example.org/", "order.*", secret=SECRET, redirects=2
        )
        await app.endpoints.arotate("erp", SECRET)
        changed = await app.endpoints.achange("erp", url="https://example.com/", rate=5.0)
        assert (changed.host, changed.rate, changed.redirects) == ("example.com", 5.0, 2)
        [stored] = await app.store.endpoints.to_send(["erp"])
        assert isinstance(stored, Endpoint)
        assert (stored.secret, stored.previous_secret) == (SECRET, SECRET)
        await app.endpoints.achange("erp", signer="hub")
        [stored] = await app.store.endpoints.to_send(["erp"])
        assert isinstance(stored, Endpoint)
        assert (stored.secret, stored.previous_secret, stored.signer) == (None, None, "hub")
        with pytest.raises(UnknownEndpoint):
            await app.endpoints.achange("crm", rate=5.0)
        with pytest.raises(InvalidEndpoint, match="a secret and a signer"):
            await app.endpoints.achange("erp", secret=SECRET, signer="hub")


async def test_answers_of_3xx(migrated_sqlite_url: str) -> None:
    """They are failures, are success, or are followed, as each endpoint says."""
    async with serving(answering(OK)) as new:
        moved = f"HTTP/1.1 307 Moved\r\nLocation: {new.url()}\r\nContent-Length: 0\r\n\r\n".encode()
        async with shop(migrated_sqlite_url) as app, serving(answering(moved)) as server:
            await put(app, "strict", server)
            await put(app, "lax", server, accepts_3xx=True)
            await put(app, "led", server, redirects=1)
            await publish(app)
            async with app.worker(webhooks=SETTINGS, poll=0.05):
                await until(ended(app, "succeeded", 2))
                await until(ended(app, "scheduled", 1))
            [failed] = await app.ajobs(task="mutirao.webhook", state="scheduled")
        sql = "SELECT DISTINCT endpoint, status FROM mutirao_webhook_attempts"
        kept = await asyncio.to_thread(rows, migrated_sqlite_url, sql)
    assert failed.args["endpoint"] == "strict"
    assert {*kept} == {("strict", 307), ("lax", 307), ("led", 200)}
    assert len(new.requests) == 1


async def test_failures_are_counted_together(migrated_sqlite_url: str) -> None:
    """However long each attempt took: the errors have one row for what is the same."""
    async with shop(migrated_sqlite_url) as app, serving(answering(NO)) as server:
        await put(app, "erp", server, retry=[])
        await publish(app, 5)
        async with app.worker(
            webhooks=replace(SETTINGS, breakers=BreakerTerms(failures=9)), poll=0.05
        ):
            await until(ended(app, "dead", 5))
        [job, *_] = await app.ajobs(task="mutirao.webhook", state="dead")
        sql = "SELECT error_type, message, attempts FROM mutirao_errors"
        found = await asyncio.to_thread(rows, migrated_sqlite_url, sql)
    told = "POST to 127.0.0.1 (endpoint erp) was answered 500"
    assert found == [("WebhookFailed", told, 5)]
    assert re.match(rf"{re.escape(told)}\nafter [0-9]+ ms\n", job.error or "")


async def test_failures_with_a_servers_own_words_are_counted_together(
    migrated_sqlite_url: str,
) -> None:
    """Whatever it says, and however much of an answer comes: the words are in the job's error."""
    said = 0

    async def behave(peer: Peer) -> None:
        nonlocal said
        await peer.request()
        said += 1
        await peer.say(b"HTTQ/%d\r\n\r\n" % said)

    async with shop(migrated_sqlite_url) as app, serving(behave) as server:
        await put(app, "erp", server, retry=[])
        await publish(app, 3)
        async with app.worker(
            webhooks=replace(SETTINGS, breakers=BreakerTerms(failures=9)), poll=0.05
        ):
            await until(ended(app, "dead", 3))
        dead = await app.ajobs(task="mutirao.webhook", state="dead")
        sql = "SELECT error_type, message, attempts FROM mutirao_errors"
        found = await asyncio.to_thread(rows, migrated_sqlite_url, sql)
    assert found == [("WebhookFailed", "POST to 127.0.0.1 (endpoint erp) failed (protocol)", 3)]
    assert all("illegal status line: bytearray(b'HTTQ/" in str(job.error) for job in dead)


async def test_a_long_url_is_not_shown(migrated_sqlite_url: str) -> None:
    """What is behind its host may be a secret."""
    async with shop(migrated_sqlite_url) as app:
        url = f"http://example.org:25/hide-me/{'x' * 300}"
        await app.endpoints.aput("erp", url, "order.*", secret=None)
        await publish(app)
        async with app.worker(webhooks=SETTINGS, poll=0.05):
            await until(ended(app, "dead", 1))
        [dead] = await app.ajobs(task="mutirao.webhook")
    assert "its port is 25" in str(dead.error)
    assert "hide-me" not in str(dead.error)


async def test_a_url_that_is_never_called(migrated_sqlite_url: str) -> None:
    """It has one attempt, however its name is resolved; one behind a name has them all."""
    async with shop(migrated_sqlite_url) as app, serving(answering()) as server:
        await put(app, "inside", server)
        await app.endpoints.aput("named", "http://localhost:8080/", ["order.*"], secret=None)
        await publish(app)
        strict = WebhookSettings(schemes=["http"], ports=range(1024, 65_536))
        async with app.worker(webhooks=strict, poll=0.05):
            await until(ended(app, "scheduled", 1))
            await until(ended(app, "dead", 1))
        [dead] = await app.ajobs(task="mutirao.webhook", state="dead")
        assert (dead.args["endpoint"], dead.attempt, dead.error_type) == ("inside", 1, "Dead")
        assert "give the guard this network" in str(dead.error)
        assert "put the endpoint with another URL" in str(dead.error)
        assert server.requests == []


async def test_a_sender_that_is_heard_from(migrated_sqlite_url: str) -> None:
    """Its own webhook lets one through, in a coroutine and elsewhere; while nothing is held, none.

    A webhook that is not verified does nothing.
    """
    back = asyncio.Event()

    async def down(peer: Peer) -> None:
        await (answering() if back.is_set() else saying(NO))(peer)

    async with shop(migrated_sqlite_url) as app, serving(down) as server:
        await put(app, "erp", server, concurrency=1)
        theirs = sign("msg_1", int(time.time()), b"x", [Secret.parse(SECRET)])
        values: dict[str, Any] = {"endpoints": app.endpoints, "sender": "erp"}
        await averify(theirs, b"x", SECRET, **values)
        await publish(app, 5)
        async with app.worker(webhooks=SETTINGS, poll=0.05, log_jobs="failures"):
            await until(opened(app, "erp"))
            with pytest.raises(WrongSignature):
                await averify(theirs, b"y", SECRET, **values)
            assert await app.ajobs(task="mutirao.webhook_probe", state="succeeded") == []
        back.set()
        # Nobody works meanwhile: a probe that had ended by then would be followed by another.
        await averify(theirs, b"x", SECRET, **values)
        assert (await asyncio.to_thread(verify, theirs, b"x", SECRET, **values)).id == "msg_1"
        async with app.worker(webhooks=SETTINGS, poll=0.05):
            await until(ended(app, "succeeded", 5 - TERMS.failures))
        probes = await app.ajobs(task="mutirao.webhook_probe", state="succeeded")
    assert len(probes) == 1
    with pytest.raises(ConfigurationError):
        verify(theirs, b"x", SECRET, sender="erp")


async def test_a_task_that_is_called_like_ours(migrated_sqlite_url: str) -> None:
    """It would get the deliveries."""
    async with shop(migrated_sqlite_url) as app:
        app.task(name="mutirao.webhook")(lambda: None)
        with pytest.raises(ConfigurationError, match="it otherwise"):
            async with app.worker(webhooks=SETTINGS):
                pass


async def test_a_signer_that_the_worker_has_not(migrated_sqlite_url: str) -> None:
    """Nothing is sent, and the attempt says what to do."""
    async with shop(migrated_sqlite_url) as app, serving(answering()) as server:
        await put(app, "erp", server, secret=None, signer="old")
        await publish(app)
        async with app.worker(webhooks=SETTINGS, poll=0.05):

            async def tried() -> bool:
                found = await app.ajobs(task="mutirao.webhook")
                return any("@app.signer" in (job.error or "") for job in found)

            await until(tried)
        assert server.requests == []
