"""What a server says beside the answer that it was asked for is nobody's answer."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest
import trustme

from mutirao.webhooks import Courier, Guard, WebhookRequest
from tests.integration.webhooks.test_guarded import DAY, server_context, trusting
from tests.support.webhooks import OK, Peer, serving

ANY = Guard(["http", "https"], range(1, 65_536), ["127.0.0.1/32"])
NO = b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"
EMPTY = b"HTTP/1.1 204 Empty\r\n\r\n"
INTERIM = b"HTTP/1.1 103 Early Hints\r\n\r\n"


@pytest.mark.parametrize("first", [OK, CHUNKED, EMPTY, INTERIM + OK])
@pytest.mark.parametrize("more", [OK, b"HTTP/1.1 200 OK\r\n", INTERIM, b"\r\n", b"x"])
async def test_bytes_after_an_answer(first: bytes, more: bytes) -> None:
    """In the same packet: a second answer, a part of one, or anything. The connection is left."""

    async def behave(peer: Peer) -> None:
        await peer.request()
        await peer.say(first + more if len(peer.server.requests) == 1 else NO)
        await peer.gone()

    async with serving(behave) as server, Courier(ANY) as courier:
        answers = [
            await courier.deliver_once(WebhookRequest(server.url(), f"m_{n}")) for n in range(2)
        ]
    assert [answer.status for answer in answers] == [204 if first is EMPTY else 200, 500]
    assert (server.connections, len(server.requests)) == (2, 2)


@contextmanager
def threaded(serve: Callable[[socket.socket], None]) -> Iterator[int]:
    """Serve connections one after the other from a thread, so that the loop does not take part."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def run() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = listening.accept()
                    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    serve(connection)

        thread = threading.Thread(target=run)
        thread.start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)
    thread.join(10)


@pytest.mark.parametrize("tls", [False, True])
async def test_bytes_that_come_while_a_connection_rests(tls: bool) -> None:
    """Even if the event loop was busy, and has not read them yet."""
    authority = trustme.CA()
    context = server_context(authority, "127.0.0.1", ends=DAY)
    context.options |= ssl.OP_NO_TICKET
    context.num_tickets = 0
    go_on, said = threading.Event(), threading.Event()
    connections: list[socket.socket] = []
    answers = iter([OK, NO])

    def serve(connection: socket.socket) -> None:
        if tls:
            connection = context.wrap_socket(connection, server_side=True)
        connections.append(connection)
        connection.recv(65_536)
        connection.sendall(next(answers))
        if len(connections) == 1:
            go_on.wait(10)
            connection.sendall(OK)
            said.set()

    with threaded(serve) as port:
        url = f"http{'s' * tls}://127.0.0.1:{port}/hook"
        async with Courier(ANY, ssl_context=trusting(authority)) as courier:
            first = await courier.deliver_once(WebhookRequest(url, "m_1"))
            go_on.set()
            assert said.wait(10)
            second = await courier.deliver_once(WebhookRequest(url, "m_2"))
        for connection in connections:
            connection.close()
    assert (first.status, second.status, second.failure) == (200, 500, None)
    assert len(connections) == 2


async def test_a_connection_that_says_nothing_more_is_kept() -> None:
    """Ordinary ones are reused; an answer in many parts is one."""

    async def behave(peer: Peer) -> None:
        await peer.request()
        for part in (CHUNKED[:60], CHUNKED[60:]):
            await peer.say(part)
            await asyncio.sleep(0)
        await peer.request()
        await peer.say(EMPTY)
        await peer.gone()

    async with serving(behave) as server, Courier(ANY) as courier:
        answers = [
            await courier.deliver_once(WebhookRequest(server.url(), f"m_{n}")) for n in range(2)
        ]
    assert [answer.status for answer in answers] == [200, 204]
    assert server.connections == 1
