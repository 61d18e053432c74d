"""An httpx2 transport that connects to vetted addresses only, for the courier and for users.

The guard stands where TCP connects. So the name in the URL remains the one of `Host`, of SNI and
of the certificate, and a second answer of the DNS comes too late. Proxies are not looked for.
"""

from __future__ import annotations

import asyncio
import select
import ssl
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import httpcore2
import httpx2

from mutirao.webhooks.guard import Guard

Options = Iterable[Any] | None
_NAMES = [
    "ConnectError",
    "ConnectTimeout",
    "LocalProtocolError",
    "NetworkError",
    "PoolTimeout",
    "ProtocolError",
    "ProxyError",
    "ReadError",
    "ReadTimeout",
    "RemoteProtocolError",
    "TimeoutException",
    "UnsupportedProtocol",
    "WriteError",
    "WriteTimeout",
]
_ERRORS: dict[type[Exception], type[httpx2.TransportError]] = {
    getattr(httpcore2, name): getattr(httpx2, name) for name in _NAMES
}


@dataclass
class Trail:
    """What a request met on its way: the address written to, and whether anything was heard."""

    address: str | None = None
    heard: bool = False


_trail: ContextVar[Trail | None] = ContextVar("mutirao_webhook_trail", default=None)


@contextmanager
def followed() -> Iterator[Trail]:
    """Note in the trail what the requests inside meet."""
    trail = Trail()
    token = _trail.set(trail)
    try:
        yield trail
    finally:
        _trail.reset(token)


class GuardedTransport(httpx2.AsyncBaseTransport):
    """For `httpx2.AsyncClient(transport=GuardedTransport(Guard()), trust_env=False)`.

    Each request, and each redirect that the client follows, raises `UnsafeUrl` where the guard
    refuses its URL or one of its addresses. It speaks HTTP/1.1, and keeps connections.

    Parameters:
        guard: decides.
        ssl_context: what certificates are trusted; as usual those that the system trusts.
        connections: kept and open at most.
    """

    def __init__(
        self,
        guard: Guard,
        *,
        ssl_context: ssl.SSLContext | None = None,
        connections: int = 100,
        backend: httpcore2.AsyncNetworkBackend | None = None,
    ) -> None:
        self._guard = guard
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=ssl_context or httpx2.create_ssl_context(trust_env=False),
            max_connections=connections,
            max_keepalive_connections=connections,
            keepalive_expiry=5.0,
            network_backend=_GuardedBackend(guard, backend or httpcore2.AnyIOBackend()),
        )

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request where the guard lets it go; UnsafeUrl where it does not."""
        self._guard.check(str(request.url))
        url = request.url
        asked = httpcore2.Request(
            request.method,
            httpcore2.URL(
                scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path
            ),
            headers=request.headers.raw,
            content=request.stream,
            extensions=request.extensions,
        )
        with _translated():
            answer = await self._pool.handle_async_request(asked)
        return httpx2.Response(
            answer.status,
            headers=answer.headers,
            stream=_Body(answer),
            extensions=answer.extensions,
        )

    async def aclose(self) -> None:
        """Close all connections."""
        await self._pool.aclose()


class _Body(httpx2.AsyncByteStream):
    """The body of an answer, read as it is asked for."""

    def __init__(self, answer: httpcore2.Response) -> None:
        self._answer = answer

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _translated():
            async for part in self._answer.aiter_stream():
                yield part

    async def aclose(self) -> None:
        await self._answer.aclose()


class _GuardedBackend(httpcore2.AsyncNetworkBackend):
    """Connects to the addresses that the guard gives for a name, one after the other."""

    def __init__(self, guard: Guard, backend: httpcore2.AsyncNetworkBackend) -> None:
        self._guard, self._backend = guard, backend

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Options = None,
    ) -> httpcore2.AsyncNetworkStream:
        try:
            async with asyncio.timeout(timeout):
                addresses = await self._guard.vet(host, port)
                return await self._first_of(addresses, port, local_address, socket_options)
        except TimeoutError as error:
            raise httpcore2.ConnectTimeout(f"no connection to {host} in {timeout} s") from error
        except OSError as error:
            raise httpcore2.ConnectError(f"{host}: {error}") from error

    async def _first_of(
        self, addresses: list[str], port: int, local: str | None, options: Options
    ) -> httpcore2.AsyncNetworkStream:
        """Connect to the first address that answers; the last one's error if none does."""
        for address in addresses[:-1]:
            try:
                return await self._connected(address, port, local, options)
            except httpcore2.ConnectError:
                continue  # the next may answer; if none does, the last one's error is raised
        return await self._connected(addresses[-1], port, local, options)

    async def _connected(
        self, address: str, port: int, local: str | None, options: Options
    ) -> httpcore2.AsyncNetworkStream:
        note = _Noting(f"[{address}]:{port}" if ":" in address else f"{address}:{port}")
        note.address()
        stream = await self._backend.connect_tcp(
            address, port, local_address=local, socket_options=options
        )
        return _Stream(stream, note)


class _Noting:
    """Tells the trail of the request at hand; a connection serves one request after another."""

    def __init__(self, address: str) -> None:
        self._address = address

    def address(self) -> None:
        if trail := _trail.get():
            trail.address = self._address

    def heard(self) -> None:
        if trail := _trail.get():
            trail.heard = True


class _Stream(httpcore2.AsyncNetworkStream):
    """A connection that tells the trail its address, and when something was heard."""

    def __init__(self, inner: httpcore2.AsyncNetworkStream, note: _Noting) -> None:
        self._inner, self._note = inner, note
        self._socket: Any = None

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        found = await self._inner.read(max_bytes, timeout)
        if found:
            self._note.heard()
        return found

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._note.address()
        await self._inner.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        secured = await self._inner.start_tls(ssl_context, server_hostname, timeout)
        return _Stream(secured, self._note)

    def get_extra_info(self, info: str) -> Any:
        if info == "is_readable":
            return self._readable()
        return self._inner.get_extra_info(info)

    def _readable(self) -> bool:
        """Tell whether the peer has said something unasked, or hung up.

        A pool asks so of every idle connection before each request. By AnyIO, which gathers all
        that it knows of a socket for that, it took a fifth of a delivery's time.
        """
        if self._socket is None:
            self._socket = self._inner.get_extra_info("socket")
        if self._socket is None or self._socket.fileno() < 0:
            return True
        asked = select.poll()
        asked.register(self._socket.fileno(), select.POLLIN)
        return bool(asked.poll(0))


@contextmanager
def _translated() -> Iterator[None]:
    """Raise what httpcore2 raises as what httpx2 calls it."""
    try:
        yield
    except tuple(_ERRORS) as error:
        kind = next(_ERRORS[each] for each in type(error).__mro__ if each in _ERRORS)
        raise kind(str(error)) from error
