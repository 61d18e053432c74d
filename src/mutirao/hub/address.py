"""The address of a hub: `tcp://host:port`, `tls://host:port` or `unix:///path`."""

import ssl
from dataclasses import dataclass, field, replace
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

from mutirao.errors import ConfigurationError
from mutirao.model.display import is_ambiguous, without_password

PORT = 8770
FORMS = "tcp://127.0.0.1:8770, tls://hub.example:8770 or unix:///run/mutirao.sock"
_KNOWN = {"name", "ca"}


@dataclass(frozen=True, slots=True)
class Address:
    """The address of a hub, as a client knows it; its text does not have the token.

    Parameters:
        host: the host's name or address; "" if it is a Unix socket.
        port: its port.
        path: the path of the Unix socket, or "".
        tls: whether TLS is spoken.
        ca: a file with the certificates to trust, in place of the system's.
        name: the name of the database, for workers and programs that know it by different URLs.
        token: the hub's token, or "".
    """

    host: str = ""
    port: int = PORT
    path: str = ""
    tls: bool = False
    ca: str | None = None
    name: str | None = None
    token: str = field(default="", repr=False)

    def __str__(self) -> str:
        if self.path:
            return f"unix://{self.path}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'tls' if self.tls else 'tcp'}://{host}:{self.port}"

    def with_token(self, token: str) -> "Address":
        """Return the same address with this token, unless it has one."""
        return self if self.token else replace(self, token=token)

    def context(self) -> ssl.SSLContext | None:
        """Return what TLS needs; None without TLS.

        Raises:
            OSError: the file of certificates cannot be read, or holds none.
        """
        return ssl.create_default_context(cafile=self.ca) if self.tls else None


def parse_address(url: str) -> Address:
    """Return the address in a URL; the token may be its password.

    Raises:
        ConfigurationError: it is no such URL. The message does not repeat a token.
    """
    try:
        parts = urlsplit(url)
        port = parts.port or PORT
        unread = is_ambiguous(url)
    except ValueError:
        unread = True
    if unread:
        raise ConfigurationError(
            f"the hub's URL {without_password(url)!r} cannot be read: give it a port of 1 to 65535,"
            f" write / in a token as %2F and @ as %40, and give one like {FORMS}"
        )
    query = {key: values[-1] for key, values in parse_qs(parts.query).items()}
    if query.keys() - _KNOWN:
        raise ConfigurationError(
            f"the hub's URL {without_password(url)!r} has parameters that are not known; known are"
            " name and ca"
        )
    _check(parts)
    return Address(
        host=parts.hostname or "",
        port=port,
        path=unquote(parts.path) if parts.scheme == "unix" else "",
        tls=parts.scheme == "tls",
        token=unquote(parts.password or ""),
        **query,
    )


def _check(parts: SplitResult) -> None:
    if parts.scheme not in ("tcp", "tls", "unix"):
        found = f"begins with {parts.scheme!r}" if parts.scheme else "has no scheme"
        raise ConfigurationError(f"the hub's URL {found}; give one like {FORMS}")
    if parts.scheme == "unix" and (not parts.path or parts.hostname):
        raise ConfigurationError(
            "the hub's URL has no absolute path of a Unix socket; write unix:///run/mutirao.sock"
        )
    if parts.scheme != "unix" and (not parts.hostname or parts.path.strip("/")):
        raise ConfigurationError(
            "the hub's URL does not consist of a host and a port; give one like"
            f" {FORMS}; an application's database is named by ?name=shop"
        )
