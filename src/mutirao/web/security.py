"""The checks before every page: the host name of the request, and the origin of a form.

There are no sessions and no tokens of forms. A browser says itself where a request comes from:
`Sec-Fetch-Site`, or, over plain HTTP to a name that is not localhost, only `Origin`.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})
_SAFE = frozenset({"GET", "HEAD"})

# No inline script and no inline style, nothing from elsewhere, and no page around these pages.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
    " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    # With `no-referrer` a browser would send the Origin `null` with our own forms.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
}

Refuse = Callable[[Scope, Receive, Send, int, str], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class GateRules:
    """Which requests are accepted.

    Parameters:
        hosts: the names by which it may be asked, in lower case, without a port; None: any.
        origins: pages from which forms may come besides those of its own: of a proxy that speaks
            HTTPS, `https://jobs.example.com`.
    """

    hosts: Collection[str] | None = None
    origins: Collection[str] = ()

    def refusal(self, method: str, scheme: str, headers: Headers) -> tuple[int, str] | None:
        """Return why a request is refused, as a status and the key of a text; None if it is not."""
        if self.hosts is not None and _name(headers.get("host", "")) not in self.hosts:
            return 421, "refused.host"
        if method in _SAFE:
            return None
        if method != "POST":
            return 405, "refused.method"
        return None if self._is_ours(scheme, headers) else (403, "refused.site")

    def _is_ours(self, scheme: str, headers: Headers) -> bool:
        """Return whether a form comes from one of our own pages, or from no browser."""
        site = headers.get("sec-fetch-site")
        if site is not None:
            return site == "same-origin"
        origin = headers.get("origin")
        if origin is not None:
            return origin in self.origins or origin == f"{scheme}://{headers.get('host', '')}"
        # A browser sends such a header by itself to nobody: a client that does is a program.
        return headers.get("authorization", "").lower().startswith("bearer ")


class Gate:
    """An application behind these rules, whose answers have these headers.

    Parameters:
        refuse: sends the page of a refusal: a status, and the key of its text.
    """

    def __init__(self, app: ASGIApp, rules: GateRules, refuse: Refuse) -> None:
        self._app, self._rules, self._refuse = app, rules, refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                _complete(MutableHeaders(scope=message))
            await send(message)

        headers = Headers(scope=scope)
        refused = self._rules.refusal(scope["method"], scope.get("scheme", "http"), headers)
        if refused is None:
            await self._app(scope, receive, sending)
        else:
            await self._refuse(scope, receive, sending, *refused)


def _complete(headers: MutableHeaders) -> None:
    for name, value in HEADERS.items():
        headers[name] = value
    headers.setdefault("cache-control", "no-store")


def _name(host: str) -> str:
    """Return the name in a Host header, without its port."""
    if host.startswith("["):
        return host.partition("]")[0].lower() + "]"
    return host.partition(":")[0].lower().rstrip(".")


def checked_origins(given: Iterable[str]) -> frozenset[str]:
    """Return origins as browsers send them.

    Raises:
        ValueError: one is invalid; the message says which.
    """
    found = set()
    for each in given:
        parts: Any = urlsplit(each)
        if parts.scheme not in ("http", "https") or not parts.netloc or parts.path not in ("", "/"):
            raise ValueError(f"{each!r} is no origin; give one such as https://jobs.example.com")
        found.add(f"{parts.scheme}://{parts.netloc}".lower())
    return frozenset(found)
