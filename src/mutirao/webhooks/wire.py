"""One TCP or TLS connection on plain asyncio, written once per iteration of the event loop.

httpcore2's own network backend is AnyIO, which waits for an iteration of the loop at each step, and
sends head and body separately.
"""

from __future__ import annotations

import asyncio
import select
import ssl
from collections import deque
from collections.abc import Iterable
from typing import Any, Self

import httpcore2


class Wire(asyncio.Protocol):
    """A connection: what it has said and was not read yet, and what is still to be sent."""

    transport: asyncio.Transport

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._heard: deque[bytes] = deque()
        self._unsent: list[bytes] = []
        self._over = False  # whether nothing more will come
        self._broken: Exception | None = None  # why
        self._held_back = False  # whether the other side is kept from saying more
        self._full = False  # whether it takes no more at the moment
        self._waiters: set[asyncio.Future[bool]] = set()

    @classmethod
    async def to(
        cls, address: str, port: int, local: str | None, options: Iterable[Any] | None
    ) -> Self:
        """Connect to an address; OSError if that cannot be done."""
        loop = asyncio.get_running_loop()
        source = None if local is None else (local, 0)
        _, wire = await loop.create_connection(cls, address, port, local_addr=source)
        for option in options or ():
            wire.transport.get_extra_info("socket").setsockopt(*option)
        return wire

    async def secure(self, context: ssl.SSLContext, name: str | None) -> None:
        """Go on with TLS; OSError if that cannot be done, among them what ssl raises."""
        if self._heard:
            raise ssl.SSLError("the server spoke before TLS began")
        secured = await self._loop.start_tls(self.transport, self, context, server_hostname=name)
        if secured is None:
            raise ConnectionResetError("the connection was closed while TLS began")
        self.transport = secured

    @property
    def over(self) -> bool:
        """Whether the other side has hung up."""
        return self._over

    @property
    def spoke(self) -> bool:
        """Whether the other side has said something, or hung up."""
        return bool(self._heard) or self._over

    @property
    def speaks(self) -> bool:
        """Whether it has, or the system has something of it that the loop has not read yet."""
        return self.spoke or _readable(self.transport.get_extra_info("socket").fileno())

    async def read(self, most: int, timeout: float | None) -> bytes:
        """Return what has come, once something has; b"" at the end."""
        self._send()
        while self._full and not self.spoke:
            await self._wait(timeout, httpcore2.WriteTimeout)
        while not self.spoke:
            await self._wait(timeout, httpcore2.ReadTimeout)
        if not self._heard:
            if self._broken is not None:
                raise httpcore2.ReadError(str(self._broken)) from self._broken
            return b""
        data = self._heard.popleft()
        if len(data) > most:
            self._heard.appendleft(data[most:])
        elif self._held_back and not self._heard and not self._over:
            self._held_back = False
            self.transport.resume_reading()
        return data[:most]

    async def write(self, data: bytes, timeout: float | None) -> None:
        """Send, at the end of this turn of the loop; wait first while much is still to be sent."""
        while self._full:
            await self._wait(timeout, httpcore2.WriteTimeout)
        if self.transport.is_closing():
            raise httpcore2.WriteError("the connection is closed") from self._broken
        if not self._unsent:
            self._loop.call_soon(self._send)
        self._unsent.append(data)

    def close(self) -> None:
        """Close it at once."""
        self._send()
        self.transport.abort()

    def connection_made(self, transport: Any) -> None:
        """Keep the way out."""
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        """Keep the received bytes; the rest waits at the sender until these are read."""
        self._heard.append(data)
        if len(self._heard) > 1 and not self._held_back:
            self._held_back = True
            self.transport.pause_reading()
        self._wake()

    def eof_received(self) -> None:
        """Note that nothing more will come."""
        self._over = True
        self._wake()

    def connection_lost(self, error: Exception | None) -> None:
        """Note that the connection is gone, and why."""
        self._over, self._broken, self._full = True, error, False
        self._wake()

    def pause_writing(self) -> None:
        """Note that much is still to be sent."""
        self._full = True

    def resume_writing(self) -> None:
        """Note that most of it was sent."""
        self._full = False
        self._wake()

    def _send(self) -> None:
        if self._unsent and not self.transport.is_closing():
            self.transport.write(b"".join(self._unsent))
        self._unsent.clear()

    async def _wait(self, timeout: float | None, late: type[Exception]) -> None:
        """Wait until something changes, but `timeout` seconds at most."""
        waiter = self._loop.create_future()
        self._waiters.add(waiter)
        timer = None if timeout is None else self._loop.call_later(timeout, _set, waiter, False)
        try:
            if not await waiter:
                raise late(f"nothing moved for {timeout:g} s")
        finally:
            self._waiters.discard(waiter)
            if timer is not None:
                timer.cancel()

    def _wake(self) -> None:
        for waiter in self._waiters:
            _set(waiter, True)


def _readable(descriptor: int) -> bool:
    if not hasattr(select, "poll"):  # Windows
        return bool(select.select([descriptor], [], [], 0)[0])
    asked = select.poll()
    asked.register(descriptor, select.POLLIN)
    return bool(asked.poll(0))


def _set(waiter: asyncio.Future[bool], changed: bool) -> None:
    if not waiter.done():
        waiter.set_result(changed)
