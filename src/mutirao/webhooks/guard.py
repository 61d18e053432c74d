"""Guards against requests to private networks (SSRF): checks URLs and resolved addresses.

A URL is checked by a strict grammar, so that no two parsers read it differently. A name is resolved
once; each of its addresses is checked, and exactly these are connected to.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field
from ipaddress import AddressValueError, IPv4Address, IPv6Address, ip_address, ip_network

from mutirao.errors import ConfigurationError, UnsafeUrl
from mutirao.model.webhooks.webhook_rules import shown_url
from mutirao.webhooks.ranges import Address, Network, danger

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
PORTS = {"http": 80, "https": 443}

_URL = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<host>\[[^\]@/?#]*\]|[^\[\]@:/?#]*)"
    r"(?::(?P<port>[0-9]{1,5}))?(?P<rest>[/?].*)?"
)
_SEEN = re.compile(r"[!-~]{1,2048}")
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_QUAD = re.compile(r"[0-9]{1,3}(?:\.[0-9]{1,3}){3}")


async def system_resolve(host: str, port: int) -> list[str]:
    """Return the addresses that the system knows for a name, in its order; OSError if none."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in found))


@dataclass(frozen=True)
class Target:
    """The target of a checked URL: its scheme, host (without brackets) and port."""

    scheme: str
    host: str
    port: int


_SUCH = {"schemes": '["https"]', "ports": "[443]", "networks": '["10.1.0.0/16"]'}


@dataclass(frozen=True)
class Guard:
    """Decides which URLs are called; the default: `https` to public addresses.

    Parameters:
        schemes: of `https` and `http`.
        ports: the ports that may be called.
        networks: networks that may be called although they are not public, such as `10.1.0.0/16`.
            A cloud's metadata address is refused unless it is given by itself, as a `/32`.
        resolve: a name and a port to addresses; the default: the system's resolver.

    Raises:
        ConfigurationError: a scheme, port or network is invalid.
    """

    schemes: Collection[str] = ("https",)
    ports: Collection[int] = (80, 443)
    networks: Collection[str] = ()
    resolve: Resolve = field(default=system_resolve, repr=False)
    _allowed: list[Network] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name, such in _SUCH.items():
            if isinstance(given := getattr(self, name), str | int):
                raise ConfigurationError(f"{name} is {given!r}; expected a list, such as {such}")
        if strange := {*self.schemes} - {*PORTS}:
            raise ConfigurationError(f"schemes has {strange.pop()!r}; expected https, http or both")
        asked = () if isinstance(self.ports, range) else self.ports
        if wrong := [port for port in asked if type(port) is not int or not 1 <= port <= 65_535]:
            raise ConfigurationError(f"ports has {wrong[0]!r}; expected numbers of 1 to 65,535")
        object.__setattr__(self, "_allowed", [_network(text) for text in self.networks])

    def check(self, url: str) -> Target:
        """Return the target of the URL, without using the network.

        Raises:
            UnsafeUrl: it is no allowed URL, its scheme or port is not on the list, or its host is
                an address that is not called. The message says which.
        """
        scheme, host, port = _split(url)
        if scheme not in self.schemes:
            raise _unsafe(url, f"its scheme is {scheme!r}", f"one of {sorted(self.schemes)}")
        number = int(port) if port else PORTS[scheme]
        if number not in self.ports:
            raise _unsafe(url, f"its port is {number}", "a port on the guard's list")
        literal = _literal(url, host)
        if literal is not None:
            self._refuse(host, [literal])
        return Target(scheme, host.strip("[]"), number)

    async def vet(self, host: str, port: int) -> list[str]:
        """Return the addresses to connect to, in this order; all of them were checked.

        Raises:
            UnsafeUrl: one of them is not called; then none is.
            OSError: the name has no address, or no resolver answered.
        """
        literal = _literal(host, f"[{host}]" if ":" in host else host)
        if literal is None:
            found = [_address(host, text) for text in await self.resolve(host, port)]
        else:
            found = [literal]
        if not found:
            raise socket.gaierror(socket.EAI_NONAME, f"{host} has no address")
        self._refuse(host, found)
        return [str(address) for address in found]

    def _refuse(self, host: str, addresses: list[Address]) -> None:
        for address in addresses:
            if found := danger(address, self._allowed):
                raise UnsafeUrl(
                    f"{host[:255]!r} leads to {address}: {found}. Webhooks go to public addresses; "
                    "to deliver inside, give the guard this network: Guard(networks=[…]), or "
                    "--webhook-networks"
                )


def _network(text: str) -> Network:
    try:
        return ip_network(text)
    except ValueError as error:
        raise ConfigurationError(
            f"networks has {text!r}: {error}. Expected a network such as 10.1.0.0/16"
        ) from error


def _split(url: object) -> tuple[str, str, str | None]:
    """Return scheme, host (IPv6 in brackets) and port of a URL; UnsafeUrl if it is not allowed."""
    if not isinstance(url, str) or not _SEEN.fullmatch(url) or "\\" in url:
        raise _unsafe(url, "it has more than visible ASCII", "1 to 2,048 of these; names as xn--…")
    found = _URL.fullmatch(url)
    if found is None or "#" in url:
        raise _unsafe(url, "it is written so", "https://host[:port]/path, without user or fragment")
    return found["scheme"].lower(), found["host"].lower(), found["port"]


def _literal(url: str, host: str) -> Address | None:
    """Return the address in a host; None for a name; UnsafeUrl if it is neither."""
    try:
        if host.startswith("["):
            return IPv6Address(host[1:-1]) if "%" not in host else _zone(url)
        if _QUAD.fullmatch(host):
            return IPv4Address(host)
    except AddressValueError as error:
        raise _unsafe(url, f"its host is {host!r}", "192.0.2.1 or [2001:db8::1]") from error
    labels = host.split(".")
    if len(host) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        raise _unsafe(url, f"its host is {host[:255]!r}", "a name of letters, digits, - and .")
    if _NUMBER.fullmatch(labels[-1]):
        raise _unsafe(url, f"its host is {host!r}", "an address as four decimal numbers")
    return None


def _zone(url: str) -> Address:
    raise _unsafe(url, "its host has a zone id", "an address without one")


def _address(host: str, text: str) -> Address:
    """Return an address from a resolver; one with a zone is local to the link, and refused."""
    try:
        address = ip_address(text)
    except ValueError as error:
        raise UnsafeUrl(
            f"{host!r} resolves to {text!r}, which is no address; check the resolver"
        ) from error
    if isinstance(address, IPv6Address) and address.scope_id is not None:
        raise UnsafeUrl(f"{host!r} resolves to {text!r}, with a zone id: that is of this link only")
    return address


def _unsafe(url: object, found: str, expected: str) -> UnsafeUrl:
    return UnsafeUrl(f"the URL {shown_url(url)!r} is not called: {found}; expected {expected}")
