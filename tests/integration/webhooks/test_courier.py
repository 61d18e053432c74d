"""One attempt against real servers: what is sent, and that nothing a server does is unbounded."""

from __future__ import annotations

import asyncio
import gzip
import socket
import time
import tracemalloc
from collections.abc import Sequence
from contextlib import closing as closed
from datetime import UTC, datetime
from typing import Any

import pytest

from mutirao.errors import InvalidSecret
from mutirao.webhooks import (
    Answer,
    Courier,
    DeliveryFailure,
    Guard,
    Secret,
    Timeouts,
    WebhookRequest,
    new_secret,
    verify,
)
from tests.support.webhooks import (
    OK,
    Behaviour,
    Server,
    answering,
    closing,
    full,
    repeating,
    saying,
    serving,
    silent,
)

SECRET = new_secret()
LONG = 10.0  # seconds; only a failure waits for it
KEPT = 16_384


async def here(host: str, port: int) -> Sequence[str]:
    """Resolve every name to this machine."""
    return ["127.0.0.1"]


INSIDE = Guard(schemes=["http"], ports=range(1, 65_536), networks=["127.0.0.1/32"], resolve=here)


async def deliver(server: Server | str, *, guard: Guard = INSIDE, **options: Any) -> Answer:
    """Make one attempt, with a courier of its own."""
    url = server if isinstance(server, str) else server.url()
    options = {"body": b'{"a": 1}', "timeouts": Timeouts(LONG, LONG, LONG), **options}
    async with Courier(guard) as courier:
        return await courier.deliver_once(WebhookRequest(url, "msg_1", **options))


def headers_of(request: bytes) -> dict[str, str]:
    """Return the headers of a request as it came."""
    lines = request.partition(b"\r\n\r\n")[0].decode().split("\r\n")[1:]
    pairs = (line.partition(": ") for line in lines)
    return {name.lower(): value for name, _, value in pairs}


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "GET", "DELETE"])
async def test_a_delivery(method: str) -> None:
    """The bytes that are signed are those that come; what is kept says where it went."""
    body = b"" if method == "GET" else b'{"a": 1}'
    async with serving(answering(OK)) as server:
        answer = await deliver(
            server.url("/hook?x=1", host="hooks.example"),
            method=method,
            body=body,
            headers={"X-Api-Key": "s3cret"},
            secrets=[Secret.parse(SECRET)],
        )
    (request,) = server.requests
    sent = headers_of(request)
    assert request.startswith(f"{method} /hook?x=1 HTTP/1.1\r\n".encode())
    assert request.endswith(b"\r\n\r\n" + body)
    assert sent["host"] == f"hooks.example:{server.port}"
    assert sent["x-api-key"] == "s3cret"
    assert sent.get("content-type") == ("application/json" if body else None)
    assert verify(sent, body, SECRET).id == "msg_1"
    assert (answer.status, answer.body, answer.truncated, answer.ok) == (200, b"ok", False, True)
    assert answer.address == f"127.0.0.1:{server.port}"
    assert (answer.failure, answer.detail, answer.retry_after) == (None, None, None)
    assert 0 < answer.milliseconds < 1_000 * LONG
    assert {k.lower(): v for k, v in answer.request_headers.items()} == {**sent, "x-api-key": "***"}


async def test_an_attempts_time_and_constant_id() -> None:
    """Each attempt is signed anew; Retry-After is reckoned by the same clock."""
    times = iter([100.0, 100.0, 160.0, 160.0])
    late = b"HTTP/1.1 503 No\r\nRetry-After: Thu, 01 Jan 1970 00:03:00 GMT\r\n\r\n"
    secrets = [Secret.parse(SECRET)]
    async with serving(saying(late)) as server, Courier(INSIDE, now=times.__next__) as courier:
        request = WebhookRequest(server.url(), "msg_1", b"x", secrets=secrets)
        answers = [await courier.deliver_once(request) for _ in range(2)]
    first, second = (headers_of(each) for each in server.requests)
    assert [first["webhook-timestamp"], second["webhook-timestamp"]] == ["100", "160"]
    assert first["webhook-id"] == second["webhook-id"] == "msg_1"
    assert first["webhook-signature"] != second["webhook-signature"]
    assert [(a.status, a.retry_after, a.ok) for a in answers] == [
        (503, 80, False),
        (503, 20, False),
    ]


async def test_a_previous_secret_ends_within_a_second() -> None:
    """Its time counts to the microsecond; the timestamp that is signed is in whole seconds."""
    until = datetime.fromtimestamp(100.5, UTC)
    secrets = [Secret.parse(SECRET), Secret.parse(new_secret(), until=until)]
    times = iter([100.4, 100.4, 100.6, 100.6])
    async with serving(answering(OK)) as server, Courier(INSIDE, now=times.__next__) as courier:
        request = WebhookRequest(server.url(), "msg_1", b"x", secrets=secrets)
        for _ in range(2):
            await courier.deliver_once(request)
    signatures = [headers_of(each)["webhook-signature"] for each in server.requests]
    assert [len(each.split(" ")) for each in signatures] == [2, 1]


async def test_retry_after_that_is_said_several_times() -> None:
    """The longest holds, of those that can be read: nobody comes back too early."""
    late = b"HTTP/1.1 503 No\r\nRetry-After: 60\r\nretry-after: 120\r\nRetry-After: soon\r\n\r\n"
    async with serving(saying(late)) as server:
        assert (await deliver(server)).retry_after == 120


async def test_unsigned_webhooks_carry_id_and_time() -> None:
    """And a request whose secrets have all ended is an error of the caller."""
    async with serving(answering(OK)) as server:
        await deliver(server)
    sent = headers_of(server.requests[0])
    assert "webhook-signature" not in sent
    assert sent["webhook-id"] == "msg_1"
    ended = Secret.parse(SECRET, until=datetime(2000, 1, 1, tzinfo=UTC))
    with pytest.raises(InvalidSecret):
        await deliver(server, secrets=[ended])


async def test_connections_are_kept() -> None:
    """The second delivery takes the first one's connection, and knows its address; no cookies."""
    cookie = OK.replace(b"OK\r\n", b"OK\r\nSet-Cookie: a=b\r\n")
    async with serving(answering(cookie)) as server, Courier(INSIDE) as courier:
        request = WebhookRequest(server.url(), "msg_1", b"x")
        answers = [await courier.deliver_once(request) for _ in range(3)]
    assert server.connections == 1
    assert {answer.address for answer in answers} == {f"127.0.0.1:{server.port}"}
    assert b"cookie" not in b"".join(server.requests).lower()


async def test_proxies_of_the_environment_are_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy would connect to what the guard has never seen."""
    async with serving(answering(OK)) as proxy, serving(answering(OK)) as server:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.url("/"))
        answer = await deliver(server)
    assert answer.ok
    assert (proxy.connections, server.connections) == (0, 1)


BODY_HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n"
NO_LENGTH = b"HTTP/1.1 200 OK\r\n\r\n"


@pytest.mark.parametrize("head", [BODY_HEAD, NO_LENGTH])
async def test_a_gigabyte(head: bytes) -> None:
    """16 kB of it are kept, the connection is closed, and no more than buffers is read."""
    tracemalloc.start()
    async with serving(repeating(head, b"x" * 65_536, 16_384)) as server:
        answer = await deliver(server)
        await asyncio.wait_for(server.closed.wait(), LONG)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (answer.status, answer.failure, answer.truncated) == (200, None, True)
    assert answer.body == b"x" * KEPT
    assert server.sent < 50_000_000
    assert peak < 20_000_000


@pytest.mark.parametrize("size", [KEPT - 1, KEPT, KEPT + 1])
async def test_answers_about_as_long_as_what_is_kept(size: int) -> None:
    """One byte more is cut off, and said to be."""
    head = f"HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n\r\n".encode()
    async with serving(answering(head + b"x" * size)) as server:
        answer = await deliver(server)
    assert (len(answer.body), answer.truncated) == (min(size, KEPT), size > KEPT)


async def test_a_compressed_answer_stays_as_it_came() -> None:
    """A bomb of 10 kB that would be 10 MB is not opened."""
    bomb = gzip.compress(b"\0" * 10_000_000)
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {len(bomb)}\r\n\r\n"
    async with serving(answering(head.encode() + bomb)) as server:
        answer = await deliver(server)
    assert answer.body == bomb[:KEPT]
    assert headers_of(server.requests[0])["accept-encoding"] == "identity"


def dripping(first: bytes, part: bytes) -> Behaviour:
    """Say `part` fifty times a second, for ever."""
    return repeating(first, part, 10_000, 0.02)


SHORT = {  # only where a limit is to be reached: a busy machine may be slow elsewhere
    DeliveryFailure.SILENT: Timeouts(LONG, 0.3, LONG),
    DeliveryFailure.TIMEOUT: Timeouts(LONG, LONG, 0.6),
}


@pytest.mark.parametrize(
    ("behaviour", "status", "failure"),
    [
        (closing, None, DeliveryFailure.CLOSED),
        (saying(b""), None, DeliveryFailure.CLOSED),
        (saying(b"garbage\r\n\r\n"), None, DeliveryFailure.PROTOCOL),
        (saying(bytes(range(256)) * 10), None, DeliveryFailure.PROTOCOL),
        (saying(b"HTTP/1.1 abc\r\n\r\n"), None, DeliveryFailure.PROTOCOL),
        (saying(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab"), 200, DeliveryFailure.PROTOCOL),
        (saying(b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n"), None, DeliveryFailure.PROTOCOL),
        (
            saying(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"),
            200,
            DeliveryFailure.PROTOCOL,
        ),
        (saying(b"SSH-2.0-OpenSSH_9.2\r\n"), None, DeliveryFailure.PROTOCOL),
        (
            repeating(b"HTTP/1.1 200 OK\r\n", b"X: " + b"y" * 9_999, 99),
            None,
            DeliveryFailure.PROTOCOL,
        ),
        (repeating(b"", b"HTTP/1.1 102 Wait\r\n\r\n", 99, 0.1), None, DeliveryFailure.TIMEOUT),
        (silent, None, DeliveryFailure.SILENT),
        (dripping(b"HTTP/1.1 200 OK\r\n", b"X"), None, DeliveryFailure.TIMEOUT),
        (dripping(BODY_HEAD, b"x"), 200, DeliveryFailure.TIMEOUT),
        (repeating(BODY_HEAD, b"x", 100, 30.0), 200, DeliveryFailure.SILENT),
    ],
)
async def test_servers_that_misbehave(
    behaviour: Behaviour, status: int | None, failure: DeliveryFailure
) -> None:
    """A failure is returned, soon, with what was there of an answer, and the connection closed."""
    began = time.monotonic()
    async with serving(behaviour) as server:
        answer = await deliver(server, timeouts=SHORT.get(failure, Timeouts(LONG, LONG, LONG)))
        await asyncio.wait_for(server.closed.wait(), LONG)
    assert (answer.status, answer.failure) == (status, failure)
    assert answer.detail
    assert not answer.ok
    assert answer.address == f"127.0.0.1:{server.port}"
    assert time.monotonic() - began < LONG


async def test_nobody_listens() -> None:
    """The port is free: refused at once."""
    with closed(socket.create_server(("127.0.0.1", 0))) as listening:
        port = listening.getsockname()[1]
    answer = await deliver(f"http://127.0.0.1:{port}/")
    assert (answer.failure, answer.address) == (DeliveryFailure.CONNECT, f"127.0.0.1:{port}")


async def test_a_server_that_takes_no_connection() -> None:
    """Its queue of connections is full, so nothing answers: the time to connect ends."""
    with full() as listening:
        answer = await deliver(
            f"http://127.0.0.1:{listening.getsockname()[1]}/", timeouts=Timeouts(0.3, LONG, LONG)
        )
    assert answer.failure is DeliveryFailure.CONNECT_TIMEOUT


async def test_a_resolver_that_does_not_answer_or_does_not_know() -> None:
    """It is part of connecting; a name without address is told apart."""

    async def hangs(host: str, port: int) -> Sequence[str]:
        await asyncio.Event().wait()
        return []

    async def unknown(host: str, port: int) -> Sequence[str]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    url = "http://hooks.example/"
    short = Timeouts(0.2, LONG, LONG)
    late = await deliver(url, guard=Guard(schemes=["http"], resolve=hangs), timeouts=short)
    none = await deliver(url, guard=Guard(schemes=["http"], resolve=unknown))
    assert (late.failure, none.failure) == (DeliveryFailure.CONNECT_TIMEOUT, DeliveryFailure.NAME)
    assert late.address is none.address is None


async def test_a_cancelled_delivery_closes_its_connection() -> None:
    """A worker that stops does not leave it open."""
    async with serving(silent) as server, Courier(INSIDE) as courier:
        request = WebhookRequest(server.url(), "msg_1", b"x")
        task = asyncio.create_task(courier.deliver_once(request))
        async with asyncio.timeout(LONG):
            while not server.requests:
                await asyncio.wait([task], timeout=0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(server.closed.wait(), LONG)
