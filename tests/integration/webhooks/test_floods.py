"""What a server says for ever besides an answer: it is counted, and others have their turns."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import httpx2
import pytest
import trustme
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import StreamEnded

from mutirao.webhooks import (
    Answer,
    Courier,
    DeliveryFailure,
    Guard,
    GuardedTransport,
    Timeouts,
    WebhookRequest,
    meter,
    transport,
    wire,
)
from tests.integration.webhooks.test_guarded import DAY, server_context, trusting
from tests.support.webhooks import OK, Behaviour, Peer, Server, answering, serving

ANY = Guard(["http", "https"], range(1, 65_536), ["127.0.0.1/32"])
LONG = Timeouts(30.0, 30.0, 30.0)  # only a failure waits for it
KEPT = 16_384
BEGUN = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def endless(first: bytes, part: bytes) -> Behaviour:
    """Answer so, then say this for ever, as fast as it is taken."""

    async def behave(peer: Peer) -> None:
        await peer.request()
        await peer.say(first)
        many = part * (65_536 // len(part) + 1)
        while True:
            await peer.say(many)

    return behave


@dataclass
class Heard:
    """How many bytes were read, in all and from whoever said most, and how many such reads."""

    wires: dict[object, int] = field(default_factory=dict)

    @property
    def most(self) -> int:
        """From one connection."""
        return max(self.wires.values())


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> Heard:
    """Count what is read of connections."""
    counted, read = Heard(), wire.Wire.read

    async def counting(self: wire.Wire, most: int, timeout: float | None) -> bytes:
        found = await read(self, most, timeout)
        counted.wires[self] = counted.wires.get(self, 0) + len(found)
        return found

    monkeypatch.setattr(wire.Wire, "read", counting)
    return counted


@pytest.mark.parametrize(
    ("first", "part", "most"),
    [
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n", transport.MOST_AT_ONCE),
        (b"", b"HTTP/1.1 103 Early Hints\r\nLink: " + b"x" * 8_000 + b"\r\n\r\n", 82_000),
        (b"HTTP/1.1 200 OK\r\n", b"a:b\r\n", 82_000),
        (b"HTTP/1.1 200 OK\r\n", b"x", 82_000),
        (b"", b"\r\n", 82_000),
    ],
)
async def test_before_an_answer(first: bytes, part: bytes, most: int, heard: Heard) -> None:
    """It ends as no HTTP, after so many bytes, which say what was expected."""
    async with serving(endless(first, part)) as server, Courier(ANY) as courier:
        answer = await courier.deliver_once(WebhookRequest(server.url(), "m", timeouts=LONG))
        await asyncio.wait_for(server.closed.wait(), 10)
    assert (answer.status, answer.failure) == (None, DeliveryFailure.PROTOCOL)
    assert heard.most <= most


@pytest.mark.parametrize(
    ("part", "most"),
    [
        (b"1\r\nx\r\n", 2 * transport.MOST_AT_ONCE),
        (b"1;" + b"y" * 9_000 + b"\r\nx\r\n", KEPT + 65_536 + 2 * transport.MOST_AT_ONCE),
    ],
)
async def test_within_an_answer(part: bytes, most: int, heard: Heard) -> None:
    """It has arrived, and no more of it is read: of chunks of a byte, or with long names."""
    async with serving(endless(BEGUN, part)) as server, Courier(ANY) as courier:
        answer = await courier.deliver_once(WebhookRequest(server.url(), "m", timeouts=LONG))
        await asyncio.wait_for(server.closed.wait(), 10)
    assert (answer.status, answer.ok, answer.truncated) == (200, True, True)
    assert len(answer.body) <= 1_001
    assert heard.most <= most


async def test_trailers_without_end(heard: Heard) -> None:
    """They are no part of what is kept, and come to no end: that is no whole answer."""
    flood = endless(BEGUN + b"1\r\nx\r\n0\r\n", b"a:b\r\n")
    async with serving(flood) as server, Courier(ANY) as courier:
        answer = await courier.deliver_once(WebhookRequest(server.url(), "m", timeouts=LONG))
    assert (answer.status, answer.failure) == (200, DeliveryFailure.PROTOCOL)
    assert heard.most <= 100 * 1024 + 2 * transport.MOST_AT_ONCE  # as h11 limits them


def frame(kind: int, stream: int, payload: bytes = b"", flags: int = 0) -> bytes:
    """Return a frame of HTTP/2."""
    head = len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big")
    return head + payload


FRAMES = {
    "PING": frame(6, 0, b"12345678"),
    "answers to PING": frame(6, 0, b"12345678", 1),
    "SETTINGS": frame(4, 0, b"\0\4\0\0\xff\xff"),
    "empty SETTINGS": frame(4, 0),
    "WINDOW_UPDATE": frame(8, 0, b"\0\0\0\1"),
    "PRIORITY": frame(2, 1, b"\0\0\0\0\1"),
    "empty DATA": frame(0, 1),
    "unknown": frame(99, 0, b"x" * 100),
    "RST_STREAM of what was": frame(3, 1, b"\0\0\0\0"),
}
INTERIM = frame(1, 1, b"\x08\x03103", 4)  # HEADERS of a status that is not indexed


@asynccontextmanager
async def flooding(part: bytes, begin: bool) -> AsyncIterator[tuple[Server, Courier]]:
    """Run a server that says this for ever, before an answer or after its head."""

    async def behave(peer: Peer) -> None:
        conn = H2Connection(H2Configuration(client_side=False))
        conn.initiate_connection()
        ended = False
        while not ended and (data := await peer.reader.read(65_536)):
            ended = any(isinstance(event, StreamEnded) for event in conn.receive_data(data))
            await peer.say(conn.data_to_send())
        if begin:
            conn.send_headers(1, [(":status", "200")])
            await peer.say(conn.data_to_send())
        many = part * (65_536 // len(part) + 1)
        reading = asyncio.create_task(peer.gone())  # it is answered to much of this
        while not reading.done():
            await peer.say(many)

    authority = trustme.CA()
    context: ssl.SSLContext = server_context(authority, "127.0.0.1", ends=DAY)
    context.set_alpn_protocols(["h2"])
    async with (
        serving(behave, tls=context) as server,
        Courier(ANY, ssl_context=trusting(authority)) as courier,
    ):
        yield server, courier


async def called(server: Server, courier: Courier) -> Answer:
    """Make one attempt."""
    url = server.url(scheme="https")
    return await courier.deliver_once(WebhookRequest(url, "m", b"x", timeouts=LONG))


@pytest.mark.parametrize("begin", [False, True])
@pytest.mark.parametrize("name", FRAMES)
async def test_frames_of_http2(
    name: str, begin: bool, monkeypatch: pytest.MonkeyPatch, heard: Heard
) -> None:
    """Those that carry nothing are counted, before an answer and within it."""
    monkeypatch.setattr(meter, "EACH_SECOND", 0.0)
    part = FRAMES[name]
    async with flooding(part, begin) as (server, courier):
        answer = await called(server, courier)
        assert answer.failure is DeliveryFailure.PROTOCOL
        assert "RST" in name or "frames of HTTP/2" in (answer.detail or "")
        assert (await called(server, courier)).failure is DeliveryFailure.PROTOCOL
        assert server.connections == 2
    assert heard.most <= 600 * len(part) + transport.MOST_AT_ONCE


async def test_interim_answers_of_http2(heard: Heard) -> None:
    """They are frames that carry nothing, too."""
    async with flooding(INTERIM, begin=False) as (server, courier):
        answer = await called(server, courier)
    assert (answer.status, answer.failure) == (None, DeliveryFailure.PROTOCOL)
    assert heard.most <= 600 * len(INTERIM) + transport.MOST_AT_ONCE


async def test_headers_that_go_on_and_on(heard: Heard) -> None:
    """HEADERS that are continued without end."""
    async with flooding(frame(9, 1, b"\0"), begin=False) as (server, courier):
        answer = await called(server, courier)
    assert answer.failure is DeliveryFailure.PROTOCOL
    assert heard.most <= 16_384 + transport.MOST_AT_ONCE


async def test_bodies_of_http2_in_bytes() -> None:
    """It has arrived; a thousand frames of it are read."""
    async with flooding(frame(0, 1, b"x"), begin=True) as (server, courier):
        answer = await called(server, courier)
    assert (answer.status, answer.ok, answer.truncated) == (200, True, True)
    assert len(answer.body) == 1_001


async def test_good_endpoints_beside_floods() -> None:
    """All deliveries to them arrive while floods go on, and each flood has its end."""
    flood = endless(b"", b"HTTP/1.1 100 Continue\r\n\r\n")
    async with (
        serving(flood) as interim,
        serving(endless(BEGUN, b"1\r\nx\r\n")) as chunks,
        flooding(FRAMES["PING"], begin=False) as (pings, courier),
        serving(answering(OK)) as good,
    ):
        floods = [
            asyncio.create_task(courier.deliver_once(WebhookRequest(url, "m", timeouts=LONG)))
            for url in (interim.url(), chunks.url(), pings.url(scheme="https"))
            for _ in range(5)
        ]
        answers = await asyncio.gather(
            *(courier.deliver_once(WebhookRequest(good.url(), f"m_{n}")) for n in range(40))
        )
        ended = await asyncio.gather(*floods)
    assert [answer.status for answer in answers] == [200] * 40
    assert [answer.failure for answer in ended] == [DeliveryFailure.PROTOCOL] * 5 + [None] * 5 + [
        DeliveryFailure.PROTOCOL
    ] * 5


async def test_an_answer_that_is_never_waited_for(heard: Heard) -> None:
    """A client that reads it to its end, which never comes: others have a turn each 32 kB."""
    turns, read = 0, 0

    async def ticking() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with (
        serving(endless(b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 65_536)) as server,
        httpx2.AsyncClient(transport=GuardedTransport(ANY), trust_env=False) as client,
        client.stream("GET", server.url()) as response,
    ):
        other = asyncio.create_task(ticking())
        async for part in response.aiter_raw():
            read += len(part)
            if read > 20_000_000:
                break
        other.cancel()
    assert turns > read / (2 * transport.MOST_AT_ONCE) / 2
