"""Receivers of webhooks of every kind, a private CA, and a DNS server that changes its mind."""

from __future__ import annotations

import asyncio
import secrets
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import cast

HEAD_END = b"\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@dataclass
class Peer:
    """What a server of a test knows of its clients, and the requests that it got."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    server: Server

    async def request(self) -> bytes:
        """Read and note one request: its head, and as much body as that says."""
        head = await self.reader.readuntil(HEAD_END)
        length = 0
        for line in head.lower().split(b"\r\n"):
            if line.startswith(b"content-length:"):
                length = int(line.partition(b":")[2])
        whole = head + await self.reader.readexactly(length)
        self.server.requests.append(whole)
        return whole

    async def say(self, text: bytes) -> None:
        """Send bytes, as fast as they are taken."""
        self.writer.write(text)
        await self.writer.drain()
        self.server.sent += len(text)

    async def gone(self) -> None:
        """Wait until the client has closed the connection."""
        while await self.reader.read(65_536):
            pass


Behaviour = Callable[[Peer], Awaitable[None]]


@dataclass
class Server:
    """A server that behaves as a test says."""

    address: str
    port: int = 0
    connections: int = 0
    requests: list[bytes] = field(default_factory=list)
    sent: int = 0
    closed: asyncio.Event = field(default_factory=asyncio.Event)

    def url(self, path: str = "/hook", host: str | None = None, scheme: str = "http") -> str:
        """Return its URL, by its address or by a name."""
        return f"{scheme}://{host or self.address}:{self.port}{path}"


@asynccontextmanager
async def serving(
    behaviour: Behaviour, *, address: str = "127.0.0.1", tls: ssl.SSLContext | None = None
) -> AsyncIterator[Server]:
    """Run a server on a free port; `closed` is set when a client has gone."""
    state = Server(address)
    open_tasks: set[asyncio.Task[None] | None] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        open_tasks.add(asyncio.current_task())
        state.connections += 1
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            await behaviour(Peer(reader, writer, state))
        state.closed.set()
        writer.transport.abort()

    server = await asyncio.start_server(serve, address, 0, ssl=tls)
    state.port = server.sockets[0].getsockname()[1]
    try:
        yield state
    finally:
        server.close()
        for task in open_tasks:
            if task is not None:
                task.cancel()
        await asyncio.gather(*filter(None, open_tasks), return_exceptions=True)


def answering(*answers: bytes) -> Behaviour:
    """Answer the requests of a connection so, one after another; the last one again and again."""

    async def behave(peer: Peer) -> None:
        given = iter(answers)
        answer = OK
        while True:
            await peer.request()
            answer = next(given, answer)
            await peer.say(answer)

    return behave


def saying(text: bytes) -> Behaviour:
    """Answer a request so, and close the connection."""

    async def behave(peer: Peer) -> None:
        await peer.request()
        await peer.say(text)
        peer.writer.write_eof()
        await peer.gone()

    return behave


def repeating(first: bytes, part: bytes, times: int, pause: float = 0.0) -> Behaviour:
    """Answer with `first`, then say `part` so often, with a pause between."""

    async def behave(peer: Peer) -> None:
        await peer.request()
        await peer.say(first)
        leaving = asyncio.ensure_future(peer.gone())
        for _ in range(times):
            await peer.say(part)
            await asyncio.wait([leaving], timeout=pause)
            if leaving.done():
                return

    return behave


async def silent(peer: Peer) -> None:
    """Take a request and say nothing."""
    await peer.request()
    await peer.gone()


async def closing(peer: Peer) -> None:
    """Close the connection at once."""


@contextmanager
def full(address: str = "127.0.0.1", port: int = 0) -> Iterator[socket.socket]:
    """Listen, with so many connections waiting that no other gets an answer."""
    with ExitStack() as stack:
        listening = stack.enter_context(socket.create_server((address, port), backlog=0))
        for _ in range(3):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listening.getsockname())
        yield listening


class NameServer(asyncio.DatagramProtocol):
    """A DNS server that answers the questions for addresses with these, the last one for ever."""

    def __init__(self, answers: Sequence[str]) -> None:
        self._answers = list(answers)
        self.asked: list[str] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the way to answer."""
        self._transport = cast(asyncio.DatagramTransport, transport)  # by its class since 3.13

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        """Answer a question with one address."""
        name = ".".join(_labels(data))
        answer = self._answers[min(len(self.asked), len(self._answers) - 1)]
        self.asked.append(name)
        head = data[:2] + struct.pack("!HHHHH", 0x8180, 1, 1, 0, 0)
        record = struct.pack("!HHHIH", 0xC00C, 1, 1, 0, 4) + ip_address(answer).packed
        self._transport.sendto(head + data[12:] + record, addr)


@asynccontextmanager
async def name_server(*answers: str) -> AsyncIterator[tuple[NameServer, _Resolve]]:
    """Run a DNS server; yield it, and a resolver that asks it by UDP."""
    loop = asyncio.get_running_loop()
    transport, server = await loop.create_datagram_endpoint(
        lambda: NameServer(answers), local_addr=("127.0.0.1", 0)
    )
    where = transport.get_extra_info("sockname")

    async def resolve(host: str, port: int) -> list[str]:
        return await _ask(where, host)

    try:
        yield server, resolve
    finally:
        transport.close()


_Resolve = Callable[[str, int], Awaitable[list[str]]]


async def _ask(where: tuple[str, int], host: str) -> list[str]:
    name = b"".join(bytes([len(label)]) + label.encode() for label in host.split("."))
    head = secrets.token_bytes(2) + struct.pack("!HHHHH", 0x0100, 1, 0, 0, 0)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_sendto(asking, head + name + b"\0" + struct.pack("!HH", 1, 1), where)
        answer = await asyncio.wait_for(loop.sock_recv(asking, 512), 10)
    assert answer[:2] == head[:2]
    return [str(ip_address(answer[-4:]))]


def _labels(question: bytes) -> Iterator[str]:
    at = 12
    while question[at]:
        yield question[at + 1 : at + 1 + question[at]].decode()
        at += 1 + question[at]
