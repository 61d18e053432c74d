"""Deliveries by HTTP/2: to a server of others' making, hypercorn, and to peers that misbehave."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import trustme
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import StreamEnded
from hypercorn.asyncio import serve
from hypercorn.config import Config

from mutirao.webhooks import (
    Answer,
    Courier,
    DeliveryFailure,
    Guard,
    Secret,
    Timeouts,
    WebhookRequest,
    pool,
    verify,
)
from tests.integration.webhooks.test_guarded import (
    DAY,
    HTTPS,
    PORTS,
    SECRET,
    here,
    server_context,
    trusting,
)
from tests.support.webhooks import Peer, Server, serving

TOGETHER = 20


@dataclass
class Hooks:
    """An ASGI application that answers when enough requests are there."""

    port: int = 0
    together: asyncio.Barrier = field(default_factory=lambda: asyncio.Barrier(1))
    versions: set[str] = field(default_factory=set)
    clients: set[tuple[str, int]] = field(default_factory=set)
    received: list[tuple[dict[str, str], bytes]] = field(default_factory=list)

    async def __call__(
        self,
        scope: dict[str, Any],
        receive: Callable[[], Awaitable[dict[str, Any]]],
        send: Callable[[dict[str, Any]], Awaitable[None]],
    ) -> None:
        """Take a request, and answer it with the others."""
        if scope["type"] != "http":
            return
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        body, more = b"", True
        while more:
            part = await receive()
            body, more = body + part["body"], part["more_body"]
        self.received.append((headers, body))
        self.versions.add(scope["http_version"])
        self.clients.add(tuple(scope["client"]))
        await self.together.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"ok"})


@asynccontextmanager
async def hypercorn(authority: trustme.CA, place: Path, hooks: Hooks) -> AsyncIterator[Hooks]:
    """Serve by TLS, with HTTP/2."""
    certificate = authority.issue_cert("hooks.example")
    chain, key = place / "chain.pem", place / "key.pem"
    chain.write_bytes(b"".join(each.bytes() for each in certificate.cert_chain_pems))
    certificate.private_key_pem.write_to_path(key)
    listening = socket.create_server(("127.0.0.1", hooks.port))
    hooks.port = listening.getsockname()[1]
    config, ending = Config(), asyncio.Event()
    config.bind = [f"fd://{listening.detach()}"]
    config.certfile, config.keyfile = str(chain), str(key)
    config.graceful_timeout = 1.0
    server = asyncio.create_task(serve(hooks, config, shutdown_trigger=ending.wait))  # type: ignore[arg-type]
    try:
        yield hooks
    finally:
        ending.set()
        await server


def request(hooks: Hooks, n: int, body: bytes = b"x") -> WebhookRequest:
    """Return a signed request."""
    url = f"https://hooks.example:{hooks.port}/hook"
    return WebhookRequest(url, f"m_{n}", body, secrets=[Secret.parse(SECRET)])


async def test_many_at_once_by_one_connection(tmp_path: Path) -> None:
    """The guard connects it; each webhook arrives whole; what the server closed is left."""
    authority = trustme.CA()
    async with Courier(HTTPS, ssl_context=trusting(authority)) as courier:
        async with hypercorn(authority, tmp_path, Hooks()) as hooks:
            first = await courier.deliver_once(request(hooks, 0, b"y" * 200_000))
            assert first.ok, first.detail
            assert (first.body, first.address) == (b"ok", f"127.0.0.1:{hooks.port}")
            hooks.together = asyncio.Barrier(TOGETHER)
            answers = await asyncio.gather(
                *(courier.deliver_once(request(hooks, n)) for n in range(1, 1 + TOGETHER))
            )
            assert all(answer.ok for answer in answers)
            assert (hooks.versions, len(hooks.clients)) == ({"2"}, 1)
            ids = {verify(headers, body, SECRET).id for headers, body in hooks.received}
            assert len(ids) == 1 + TOGETHER
        async with hypercorn(authority, tmp_path, Hooks(hooks.port)) as again:
            assert (await courier.deliver_once(request(again, 0))).ok
            assert again.versions == {"2"}


async def test_an_address_that_is_not_admitted(tmp_path: Path) -> None:
    """The server would take it, and hears nothing."""
    authority = trustme.CA()
    async with hypercorn(authority, tmp_path, Hooks()) as hooks:
        guard = Guard(["https"], PORTS, [], here)
        async with Courier(guard, ssl_context=trusting(authority)) as courier:
            answer = await courier.deliver_once(request(hooks, 0))
    assert answer.failure is DeliveryFailure.UNSAFE
    assert hooks.received == []


OK = [(":status", "200")]
Say = Callable[[H2Connection, int], bytes]  # to the request of a stream; bytes beside what h2 makes


def whole(conn: H2Connection, stream: int) -> bytes:
    """Answer as it should be."""
    conn.send_headers(stream, OK, end_stream=True)
    return b""


@asynccontextmanager
async def speaking(*says: Say) -> AsyncIterator[tuple[Server, Courier]]:
    """Run a server that answers the requests of all connections so, the last one for ever."""
    given = [*says]

    async def behave(peer: Peer) -> None:
        lax = H2Configuration(client_side=False, validate_outbound_headers=False)
        conn = H2Connection(lax)
        conn.initiate_connection()
        await peer.say(conn.data_to_send())
        while data := await peer.reader.read(65_536):
            for event in conn.receive_data(data):
                if isinstance(event, StreamEnded):
                    peer.server.requests.append(b"")
                    say = given.pop(0) if len(given) > 1 else given[0]
                    more = say(conn, event.stream_id)
                    await peer.say(conn.data_to_send() + more)
            await peer.say(conn.data_to_send())

    authority = trustme.CA()
    context = server_context(authority, "hooks.example", ends=DAY)
    context.set_alpn_protocols(["h2"])
    async with (
        serving(behave, tls=context) as server,
        Courier(HTTPS, ssl_context=trusting(authority)) as courier,
    ):
        yield server, courier


async def delivered(server: Server, courier: Courier, first_byte: float = 10.0) -> Answer:
    """Make one attempt."""
    url = server.url(host="hooks.example", scheme="https")
    limits = Timeouts(10.0, first_byte, 10.0)
    return await courier.deliver_once(WebhookRequest(url, "m", b"x", timeouts=limits))


def no_number(conn: H2Connection, stream: int) -> bytes:
    """Answer with a status that is none."""
    conn.send_headers(stream, [(":status", "abc")], end_stream=True)
    return b""


def garbage(conn: H2Connection, stream: int) -> bytes:
    """Begin an answer, and go on with data of no stream."""
    conn.send_headers(stream, OK)
    return b"\0\0\1" + b"\0" * 6 + b"x"


def shorter(conn: H2Connection, stream: int) -> bytes:
    """Say less than was announced."""
    conn.send_headers(stream, [*OK, ("content-length", "9")])
    conn.send_data(stream, b"ab", end_stream=True)
    return b""


def reset(conn: H2Connection, stream: int) -> bytes:
    """Take an answer back."""
    conn.send_headers(stream, OK)
    conn.reset_stream(stream)
    return b""


@pytest.mark.parametrize("say", [no_number, garbage, shorter, reset])
async def test_peers_that_misbehave(say: Say) -> None:
    """A failure is returned, and what comes next is sent by another connection, if need be."""
    async with speaking(say, whole) as (server, courier):
        answer = await delivered(server, courier)
        assert answer.failure is DeliveryFailure.PROTOCOL
        assert answer.detail
        assert (await delivered(server, courier)).ok


async def test_one_that_was_silent() -> None:
    """Its connection is left alone: what comes next would be told of the same silence."""
    async with speaking(lambda conn, stream: b"", whole) as (server, courier):
        assert (await delivered(server, courier, 0.2)).failure is DeliveryFailure.SILENT
        assert (await delivered(server, courier)).ok
        await asyncio.wait_for(server.closed.wait(), 10)


def long(conn: H2Connection, stream: int) -> bytes:
    """Say more than is read, and do not come to an end."""
    conn.send_headers(stream, OK)
    for _ in range(4):
        conn.send_data(stream, b"x" * 16_000)
    return b""


async def test_answers_without_end() -> None:
    """Their beginning is kept, and their connection closed: it would be full soon."""
    async with speaking(long) as (server, courier):
        for n in range(1, 4):
            answer = await delivered(server, courier)
            assert (answer.ok, answer.truncated, len(answer.body)) == (True, True, 16_384)
            assert server.connections == n


async def test_a_connection_has_so_many_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is left before the server ends it."""
    monkeypatch.setattr(pool, "MOST_REQUESTS", 2)
    async with speaking(whole) as (server, courier):
        assert [(await delivered(server, courier)).ok for _ in range(4)] == [True] * 4
    assert server.connections == 2


async def test_a_connection_that_ends_meanwhile() -> None:
    """What the server has not looked at goes by another one, in the same attempt."""

    def last(conn: H2Connection, stream: int) -> bytes:
        conn.send_headers(stream - 2, OK, end_stream=True)
        conn.close_connection(last_stream_id=stream - 2)
        return b""

    async with speaking(whole, lambda conn, stream: b"", last, whole) as (server, courier):
        assert (await delivered(server, courier)).ok
        answers = await asyncio.gather(*(delivered(server, courier) for _ in range(2)))
    assert [answer.ok for answer in answers] == [True, True], answers
    assert (server.connections, len(server.requests)) == (2, 4)
