"""The dashboard as a program of its own: loopback only, unless it asks who is there."""

import asyncio
import ipaddress
import signal
import socket
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import uvicorn

from mutirao.errors import ConfigurationError
from mutirao.log import log
from mutirao.web import mounting
from mutirao.web.credentials import Credentials, Door, loopback
from mutirao.web.scoped_tokens import ScopedTokens
from mutirao.web.security import LOOPBACK_NAMES, GateRules, checked_origins
from mutirao.web.several.databases_site import ListingApp
from mutirao.web.site import Settings, Site


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingOptions:
    """How the dashboard is served; the options of `mutirao web`."""

    bind: str = "127.0.0.1:8765"
    user: str = "admin"
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    tokens: str | None = field(default=None, repr=False)
    hosts: Collection[str] = ()
    origins: Collection[str] = ()
    redact: Collection[str] = ()


def serve(app: ListingApp, given: ServingOptions) -> None:
    """Serve until SIGTERM or SIGINT.

    Raises:
        ConfigurationError: the address is none or taken, a secret is too short, or others could
            connect and nothing is asked of them.
    """
    site, host, port = made(app, given)
    listening = _listen(host, port)
    shown = f"[{host}]" if ":" in host else host
    log.info("dashboard at http://%s:%d", shown, listening.getsockname()[1])
    config = uvicorn.Config(
        site,
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=5,
    )
    with listening:
        asyncio.run(_until_stopped(_Server(config), listening, app))


async def _until_stopped(server: uvicorn.Server, listening: socket.socket, app: ListingApp) -> None:
    try:
        await server.serve(sockets=[listening])
    finally:
        await app.aclose()


class _Server(uvicorn.Server):
    """A server that a signal ends in good order: uvicorn's own raises it again afterwards."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop at the first signal, at once at the second."""
        loop = asyncio.get_running_loop()
        for each in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(each, self.handle_exit, each, None)
        yield


def made(app: ListingApp, given: ServingOptions) -> tuple[Site, str, int]:
    """Return the dashboard, and the address on which it is served."""
    host, port = _address(given.bind)
    try:
        credentials = Credentials(
            user=given.user,
            password=given.password,
            token=given.token,
            tokens=ScopedTokens() if given.tokens is None else ScopedTokens.parse(given.tokens),
        )
        origins = checked_origins(given.origins)
    except ValueError as unfit:
        raise ConfigurationError(str(unfit)) from unfit
    local = _is_loopback(host)
    if not local and not credentials:
        raise ConfigurationError(
            f"--bind is {given.bind!r}, where others can connect, and nothing is asked of them;"
            " give --password-file, --token-file or --tokens-file, or bind 127.0.0.1"
        )
    names = {_asked_as(each) for each in given.hosts}
    # A page elsewhere whose name was made to mean this machine has its own name in `Host`.
    known = {*LOOPBACK_NAMES, *names} if local else names
    hosts = {_asked_as(host), *known} if known else None
    settings = Settings(
        access=Door(credentials) if credentials else loopback,
        rules=GateRules(hosts=hosts, origins=origins),
        redact=given.redact,
    )
    return mounting.made(app, settings), host, port


def _address(bind: str) -> tuple[str, int]:
    host, colon, port = bind.rpartition(":")
    if not colon or not host or not (port.isascii() and port.isdecimal()) or int(port) > 65_535:
        raise ConfigurationError(f"--bind is {bind!r}; give host:port, such as 127.0.0.1:8765")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _asked_as(host: str) -> str:
    """Return a name or an address as requests have it in `Host`, without a port."""
    plain = host.lower().removeprefix("[").removesuffix("]")
    try:
        address = ipaddress.ip_address(plain)
    except ValueError:
        return plain.rstrip(".")
    return f"[{address}]" if address.version == 6 else str(address)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _listen(host: str, port: int) -> socket.socket:
    try:
        [(family, kind, protocol, _, address), *_] = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        listening = socket.socket(family, kind, protocol)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
            listening.listen()  # a reader of the address in the log may connect at once
        except OSError:
            listening.close()
            raise
    except OSError as error:
        raise ConfigurationError(
            f"--bind is {host}:{port}, where nobody can listen: {error.strerror or error}; give"
            " another one"
        ) from error
    return listening
