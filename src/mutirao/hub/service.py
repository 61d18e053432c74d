"""The hub as a process: listens at its addresses until a signal ends it."""

import asyncio
import errno
import ipaddress
import logging
import os
import resource
import signal
import socket
import ssl
import stat
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from mutirao.errors import ConfigurationError
from mutirao.hub.looking import EVERY, LookedAt, Lookout
from mutirao.hub.server import MOST_CLIENTS, Hub

log = logging.getLogger("mutirao")

BACKLOG = 1_000  # connections that wait to be accepted: after a restart all come at once
OTHER_FILES = 64  # descriptors that are not clients'
HANDSHAKE = 5.0  # seconds that a TLS handshake may take


@dataclass(frozen=True, slots=True, kw_only=True)
class HubSettings:
    """How a hub is run.

    Parameters:
        bind: `host:port`, or `unix:///path`.
        token: what clients must give; "": nothing, which only loopback and Unix sockets allow.
        certificate: the file of the TLS certificate, with its chain; None: no TLS.
        key: the file of its key; None: it is in the same file.
        every: seconds between two looks at each database.
    """

    bind: str
    token: str = field(default="", repr=False)
    certificate: str | None = None
    key: str | None = None
    every: float = EVERY


def run(settings: HubSettings, databases: Sequence[LookedAt] = ()) -> None:
    """Run a hub in this process until SIGTERM or SIGINT.

    Raises:
        ConfigurationError: it may not or cannot listen there, or the certificate cannot be used.
    """
    asyncio.run(_run(settings, databases))


async def _run(settings: HubSettings, databases: Sequence[LookedAt]) -> None:
    stopping, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    async with serving(settings, databases) as place:
        log.info("the hub listens at %s", place)
        await stopping.wait()
        log.info("the hub ends")


@asynccontextmanager
async def serving(settings: HubSettings, databases: Sequence[LookedAt] = ()) -> AsyncIterator[str]:
    """Serve in the running event loop until the block ends; yield where, as clients write it.

    Raises:
        ConfigurationError: see `run`.
    """
    tls = _tls(settings)
    hub = Hub(settings.token, _most_clients())
    server, place = await _listen(settings, hub, tls)
    tasks = [asyncio.create_task(hub.sweep())]
    for watched in databases:
        lookout = Lookout(watched, settings.every, hub.wake, hub.looks)
        tasks.append(asyncio.create_task(lookout.run()))
    try:
        yield place
    finally:
        server.close()
        hub.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _listen(
    settings: HubSettings, hub: Hub, tls: ssl.SSLContext | None
) -> tuple[asyncio.AbstractServer, str]:
    loop = asyncio.get_running_loop()
    handshake = None if tls is None else HANDSHAKE
    try:
        if settings.bind.startswith("unix://"):
            path = settings.bind.removeprefix("unix://")
            _refuse_taken(path)
            server = await loop.create_unix_server(hub.client, path, backlog=BACKLOG)
            os.chmod(path, 0o666 if settings.token else 0o600)
            return server, f"unix://{path}"
        host, port = _host_and_port(settings.bind)
        await _require_token(host, settings)
        server = await loop.create_server(
            hub.client, host, port, ssl=tls, backlog=BACKLOG, ssl_handshake_timeout=handshake
        )
    except OSError as error:
        raise ConfigurationError(
            f"the hub cannot listen at {settings.bind}: {error}; {_remedy(error)}"
        ) from error
    bound = server.sockets[0].getsockname()
    shown = f"[{bound[0]}]" if ":" in bound[0] else bound[0]
    return server, f"{'tcp' if tls is None else 'tls'}://{shown}:{bound[1]}"


def _remedy(error: OSError) -> str:
    taken = error.errno == errno.EADDRINUSE
    return "is another one running there?" if taken else "bind it where this machine has a place"


def _host_and_port(bind: str) -> tuple[str, int]:
    host, colon, port = bind.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > 65_535:
        raise ConfigurationError(
            f"the hub is to be bound to {bind!r}; write 127.0.0.1:8770, [::1]:8770 or"
            " unix:///run/mutirao.sock"
        )
    return host.strip("[]"), int(port)


async def _require_token(host: str, settings: HubSettings) -> None:
    """Refuse to listen where other machines may connect, unless they need a token."""
    if settings.token:
        return
    found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    for *_, address in found:
        if not ipaddress.ip_address(str(address[0]).partition("%")[0]).is_loopback:
            raise ConfigurationError(
                f"the hub is to be bound to {settings.bind}, where other machines can connect,"
                " without a token; give one by --token or MUTIRAO_HUB_TOKEN, or bind it to"
                " 127.0.0.1"
            )


def _refuse_taken(path: str) -> None:
    """Refuse a path where another hub listens; the socket of one that is gone is replaced."""
    try:
        if not stat.S_ISSOCK(os.stat(path).st_mode):
            raise ConfigurationError(f"the hub cannot listen at {path}, which is no socket")
    except FileNotFoundError:
        return
    with socket.socket(socket.AF_UNIX) as trial:
        trial.settimeout(1.0)
        try:
            trial.connect(path)
        except ConnectionRefusedError:
            return
    raise ConfigurationError(f"another hub listens at {path} already; stop it first")


def _tls(settings: HubSettings) -> ssl.SSLContext | None:
    if settings.certificate is None:
        if settings.key is not None:
            raise ConfigurationError("the hub was given a key without a certificate; give both")
        return None
    if settings.bind.startswith("unix://"):
        raise ConfigurationError("a Unix socket needs no TLS; leave the certificate out")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(settings.certificate, settings.key)
    except OSError as error:  # an SSLError is one
        raise ConfigurationError(
            f"the certificate {settings.certificate} cannot be used: {error}"
        ) from error
    return context


def _most_clients() -> int:
    """Return how many clients there may be, after allowing as many files as the system does."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = MOST_CLIENTS + OTHER_FILES if hard == resource.RLIM_INFINITY else hard
    wanted = min(allowed, MOST_CLIENTS + OTHER_FILES)
    if resource.getrlimit(resource.RLIMIT_NOFILE)[0] < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return max(1, wanted - OTHER_FILES)
