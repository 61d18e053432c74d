"""A TCP proxy in front of a server that can be made to keep silent, or slow, or to lead elsewhere.

It has an event loop of its own in a thread. Its methods may be called from any other.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Callable, Collection, Coroutine
from contextlib import suppress
from enum import Enum
from typing import Any, Self

CHUNK = 65_536  # bytes forwarded in one piece, unless it is slow
DEADLINE = 10.0  # seconds for the loop to do what it is told


class Way(Enum):
    """A direction of a connection."""

    TO_SERVER = "to the server"
    TO_CLIENT = "to the client"


BOTH = frozenset(Way)


class Proxy:
    """Leads connections to a port of 127.0.0.1; use it as a context manager."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._links: set[_Link] = set()
        self._silent: Collection[Way] = ()  # for new connections
        self._pace = _Pace()
        self._server: asyncio.Server | None = None
        self.port = 0

    def __enter__(self) -> Self:
        self._thread.start()
        self.port = self._run(self._listen())
        return self

    def __exit__(self, *_: object) -> None:
        self._run(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(DEADLINE)
        self._loop.close()

    def lead_to(self, port: int) -> None:
        """Lead new connections elsewhere, and cut the others."""
        self._target = port
        self.cut()

    def cut(self) -> None:
        """Reset all connections, on both sides."""
        self._command(_Link.abort)

    def silence(self, ways: Collection[Way], *, new: bool) -> None:
        """Forward nothing more these ways on what is open now, and on `new` ones if so asked."""
        self._silent = ways if new else ()
        self._command(lambda link: link.silence(ways))

    def speak(self) -> None:
        """Forward again, first of all what came meanwhile."""
        self._silent = ()
        self._command(_Link.speak)

    def slow(self, *, rate: float | None = None, latency: float = 0.0) -> None:
        """Forward so many bytes a second on each connection (None: all), and so many s later."""
        self._pace.rate, self._pace.latency = rate, latency

    def _command(self, command: Callable[[_Link], None]) -> None:
        async def obey() -> None:
            for link in self._links:
                command(link)

        self._run(obey())

    def _run(self, what: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(what, self._loop).result(DEADLINE)

    async def _listen(self) -> int:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return int(self._server.sockets[0].getsockname()[1])

    async def _close(self) -> None:
        if self._server is not None:
            self._server.close()
        for link in self._links:
            link.abort()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.wait(others, timeout=DEADLINE / 2) if others else None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            _reset(writer)  # as if nobody listened here either
            return
        link = _Link((reader, writer), there, self._pace)
        link.silence(self._silent)
        self._links.add(link)
        try:
            await link.run()
        finally:
            self._links.discard(link)
            link.close()


_Side = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class _Pace:
    """How fast each connection is."""

    def __init__(self) -> None:
        self.rate: float | None = None  # bytes a second
        self.latency = 0.0  # seconds

    @property
    def chunk(self) -> int:
        """Bytes to take at once, so that a slow connection trickles."""
        return CHUNK if self.rate is None else max(1, int(self.rate / 10))

    async def wait(self, size: int) -> None:
        """Wait for as long as so many bytes take."""
        seconds = self.latency + (size / self.rate if self.rate else 0.0)
        if seconds:
            await asyncio.sleep(seconds)


class _Link:
    """One connection through the proxy."""

    def __init__(self, client: _Side, server: _Side, pace: _Pace) -> None:
        self._client, self._server, self._pace = client, server, pace
        self._open = {way: asyncio.Event() for way in Way}
        self.speak()

    async def run(self) -> None:
        """Forward until either side has ended, and the other one may hear of it."""
        (here, to_client), (there, to_server) = self._client, self._server
        pipes = [
            asyncio.create_task(self._pipe(here, to_server, Way.TO_SERVER)),
            asyncio.create_task(self._pipe(there, to_client, Way.TO_CLIENT)),
        ]
        try:
            await asyncio.wait(pipes, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pipe in pipes:
                pipe.cancel()

    def silence(self, ways: Collection[Way]) -> None:
        """Forward nothing more these ways, the end of the connection neither."""
        for way in ways:
            self._open[way].clear()

    def speak(self) -> None:
        """Forward again."""
        for way in Way:
            self._open[way].set()

    def abort(self) -> None:
        """Reset both sides."""
        for _, writer in (self._client, self._server):
            _reset(writer)
        self.speak()

    def close(self) -> None:
        """Close both sides after what is on its way."""
        for _, writer in (self._client, self._server):
            writer.close()

    async def _pipe(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: Way
    ) -> None:
        with suppress(OSError):
            while data := await reader.read(self._pace.chunk):
                await self._pace.wait(len(data))
                await self._open[way].wait()
                writer.write(data)
                await writer.drain()
        await self._open[way].wait()


def _reset(writer: asyncio.StreamWriter) -> None:
    # To linger for no time means RST instead of FIN.
    option = struct.pack("ii", 1, 0)
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, option)
    writer.transport.abort()
