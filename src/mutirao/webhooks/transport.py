"""An httpx2 transport that connects to vetted addresses only, for the courier and for users.

The guard checks the address that TCP connects to. So the name in the URL remains the one of `Host`,
of SNI and of the certificate, and a second answer of the DNS has no effect. Proxies are not used.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import httpcore2
import httpx2

from mutirao.errors import MutiraoError
from mutirao.webhooks.guard import Guard
from mutirao.webhooks.meter import Http1Meter, Http2Meter, Meter
from mutirao.webhooks.pool import Pool, Pooled
from mutirao.webhooks.wire import Wire

Options = Iterable[Any] | None
HTTP2 = find_spec("h2") is not None
# Seconds that a connection is kept without a request: less than the five after which Apache, Node
# and uvicorn close theirs, as what is sent at that moment fails.
KEPT_FOR = 4.0
MOST_AT_ONCE = 16 * 1024  # bytes that are read without a turn of the loop for others
_EXTRA = {"client_addr": "sockname", "server_addr": "peername"}  # httpcore2's words: asyncio's
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
# By HTTP/2 httpcore2 lets these pass: of h2, and of an answer's status that is no number.
_UNTRANSLATED: tuple[type[Exception], ...] = (ValueError,)
if HTTP2:
    _UNTRANSLATED += (import_module("h2.exceptions").H2Error,)


@dataclass
class Trail:
    """The trail of a request: the address written to, and the number of bytes received."""

    address: str | None = None
    heard: int = 0


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


@contextmanager
def _heard() -> Iterator[Trail]:
    """Return the trail of the current request, or a new one if it has none."""
    if (trail := _trail.get()) is not None:
        yield trail
        return
    with followed() as trail:
        yield trail


class GuardedTransport(httpx2.AsyncBaseTransport):
    """For `httpx2.AsyncClient(transport=GuardedTransport(Guard()), trust_env=False)`.

    Each request, and each redirect that the client follows, raises `UnsafeUrl` where the guard
    refuses its URL or one of its addresses. It keeps connections, and speaks HTTP/1.1; where the
    extra `http2` is installed HTTP/2 too, if the server does, by TLS.

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
    ) -> None:
        self._guard, self._backend = guard, _GuardedBackend(guard)
        self._ssl_context = ssl_context or httpx2.create_ssl_context(trust_env=False)
        self._pool = Pool(self._connection, connections)

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
        with _translated(), _heard() as trail:
            before, again = trail.heard, isinstance(request.stream, httpx2.ByteStream)
            answer, pooled = await self._pool.send(asked, lambda: again and trail.heard == before)
        return httpx2.Response(
            answer.status,
            headers=answer.headers,
            stream=_Body(answer, self._pool, pooled),
            extensions=answer.extensions,
        )

    async def aclose(self) -> None:
        """Close all connections."""
        await self._pool.aclose()

    def _connection(self, origin: httpcore2.Origin) -> httpcore2.AsyncHTTPConnection:
        return httpcore2.AsyncHTTPConnection(
            origin,
            ssl_context=self._ssl_context,
            keepalive_expiry=KEPT_FOR,
            http2=HTTP2,
            network_backend=self._backend,
        )


class _Body(httpx2.AsyncByteStream):
    """The body of an answer, read as it is asked for."""

    def __init__(self, answer: httpcore2.Response, pool: Pool, pooled: Pooled) -> None:
        self._answer, self._pool = answer, pool
        self._pooled: Pooled | None = pooled
        self._whole = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _translated():
            async for part in self._answer.aiter_stream():
                yield part
        self._whole = True

    async def aclose(self) -> None:
        pooled, self._pooled = self._pooled, None
        if pooled is None:
            return
        try:
            await self._answer.aclose()
        finally:
            await self._pool.give_back(pooled, whole=self._whole)


class _GuardedBackend(httpcore2.AsyncNetworkBackend):
    """Connects to the addresses that the guard gives for a name, one after the other."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard

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
                until = None if timeout is None else asyncio.get_running_loop().time() + timeout
                addresses = await self._guard.vet(host, port)
                return await _first_of(addresses, until, port, local_address, socket_options)
        except TimeoutError as error:
            raise httpcore2.ConnectTimeout(f"no connection to {host} in {timeout} s") from error
        except OSError as error:
            raise httpcore2.ConnectError(f"{host}: {error}") from error


async def _first_of(
    addresses: list[str], until: float | None, port: int, local: str | None, options: Options
) -> httpcore2.AsyncNetworkStream:
    """Connect to the first address that answers; the last one's error if none does.

    Each has its share of the time that is left, as one may be where nothing comes back from: that
    of IPv6 in a network which has none, say.

    Parameters:
        until: by the loop's clock; None is without limit.
    """
    time = asyncio.get_running_loop().time
    for nth, address in enumerate(addresses[:-1]):
        share = None if until is None else (until - time()) / (len(addresses) - nth)
        try:
            async with asyncio.timeout(share):
                return await _connected(address, port, local, options)
        except OSError:
            continue  # the next may answer; if none does, the last one's error is raised
    return await _connected(addresses[-1], port, local, options)


async def _connected(
    address: str, port: int, local: str | None, options: Options
) -> httpcore2.AsyncNetworkStream:
    place = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
    _note(place)
    return _Stream(await Wire.to(address, port, local, options), place)


def _note(address: str) -> None:
    if trail := _trail.get():
        trail.address = address


class _Stream(httpcore2.AsyncNetworkStream):
    """A connection that notes its address, and the bytes received, in the trail of its request.

    It serves one request after another.
    """

    def __init__(self, wire: Wire, address: str) -> None:
        self._wire, self._address = wire, address
        self._meter: Meter = Http1Meter()
        self._read_at_once = 0  # since the loop had a turn

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        if not self._wire.spoke:
            self._read_at_once = 0
        elif self._read_at_once >= MOST_AT_ONCE:
            # Where there is always something to be read, nobody else would have a turn.
            self._read_at_once = 0
            await asyncio.sleep(0)
        found = await self._wire.read(min(max_bytes, MOST_AT_ONCE), timeout)
        self._read_at_once += len(found)
        if trail := _trail.get():
            trail.heard += len(found)
        self._meter.heard(found)
        return found

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        _note(self._address)
        if buffer:
            self._meter.said(buffer)
            await self._wire.write(buffer, timeout)

    async def aclose(self) -> None:
        self._wire.close()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        try:
            async with asyncio.timeout(timeout):
                await self._wire.secure(ssl_context, server_hostname)
        except BaseException as error:
            self._wire.close()
            if isinstance(error, TimeoutError):
                raise httpcore2.ConnectTimeout(f"no TLS in {timeout} s") from error
            if isinstance(error, OSError):
                raise httpcore2.ConnectError(str(error)) from error
            raise
        if self.get_extra_info("ssl_object").selected_alpn_protocol() == "h2":
            self._meter = Http2Meter()
        return self

    def get_extra_info(self, info: str) -> Any:
        if info == "is_readable":
            return self._wire.speaks
        if info == "is_over":
            return self._wire.over
        return self._wire.transport.get_extra_info(_EXTRA.get(info, info))


@contextmanager
def _translated() -> Iterator[None]:
    """Raise the errors of httpcore2 as those of httpx2."""
    try:
        yield
    except tuple(_ERRORS) as error:
        kind = next(_ERRORS[each] for each in type(error).__mro__ if each in _ERRORS)
        raise kind(str(error)) from error
    except MutiraoError:
        raise
    except _UNTRANSLATED as error:
        text = f"{type(error).__name__}: {error}"
        raise httpx2.RemoteProtocolError(text) from error
