"""The request of a webhook: one message to one URL, checked when it is made."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields

from mutirao.errors import InvalidEndpoint
from mutirao.model.webhooks.webhook_rules import METHODS, MOST_REDIRECTS, PUBLIC, check_headers
from mutirao.webhooks.answer import KEPT
from mutirao.webhooks.keys import Secret
from mutirao.webhooks.signing import checked_id

MOST_KEPT = 1024 * 1024  # bytes of an answer
# From method, URL, headers and body to more headers. Not to block: it is called in the event loop.
Signer = Callable[
    [str, str, Mapping[str, str], bytes], Mapping[str, str] | Awaitable[Mapping[str, str]]
]


@dataclass(frozen=True)
class Timeouts:
    """How long an attempt may take, in seconds.

    Parameters:
        connect: until there is a connection: the name's addresses, TCP, and TLS once more as long.
        first_byte: the server's silence: before the first byte of its answer, and between two.
        whole: all of it, redirects included.
    """

    connect: float = 5.0
    first_byte: float = 15.0
    whole: float = 30.0

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if not (0 < value < math.inf):
                raise InvalidEndpoint(
                    f"the timeout {each.name} is {value!r}; expected seconds, more than 0"
                )


@dataclass(frozen=True)
class WebhookRequest:
    """One webhook to one URL. Its repr has no secrets: no URL, headers and body.

    Parameters:
        url: where it goes; the guard of the courier decides about it.
        id: constant over all attempts of a delivery; None sends no header of Standard Webhooks.
        body: the bytes that are sent and signed; none with GET.
        method: POST, PUT, PATCH, GET or DELETE.
        headers: besides ours. `Content-Type` is `application/json` unless given.
        secrets: that sign; none leaves it unsigned.
        timeouts: of this attempt.
        redirects: how many are followed, 0 to 5. The same request is sent again; headers that
            were given do not go to another scheme, host or port.
        signer: a function that signs in a way of its own. Each time the request is sent, after
            redirects too, it gets method, URL, headers and body, and returns the headers to add or
            to replace; or it is a coroutine function that does so. Its time is the attempt's.
        keep: bytes of the answer's body, 16 kB as usual, 1 MB at most.

    Raises:
        InvalidEndpoint: one of these cannot be; the message says which, and never a value of
            a header.
    """

    url: str = field(repr=False)
    id: str | None = None
    body: bytes = field(default=b"", repr=False)
    method: str = "POST"
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    secrets: Sequence[Secret] = field(default=(), repr=False)
    timeouts: Timeouts = Timeouts()
    redirects: int = 0
    signer: Signer | None = field(default=None, repr=False)
    keep: int = KEPT

    def __post_init__(self) -> None:
        if self.id is not None:
            checked_id(self.id)
        elif self.secrets:
            raise InvalidEndpoint("secrets sign the id as well; give the request an id")
        if self.method not in METHODS:
            raise InvalidEndpoint(f"the method is {self.method!r}; expected one of {METHODS}")
        if self.method == "GET" and self.body:
            raise InvalidEndpoint("GET carries no body; send it with POST, or leave the body out")
        if not 0 <= self.redirects <= MOST_REDIRECTS:
            raise InvalidEndpoint(f"redirects={self.redirects!r}; expected 0 to {MOST_REDIRECTS}")
        if not 0 < self.keep <= MOST_KEPT:
            raise InvalidEndpoint(f"keep={self.keep!r}; expected 1 to {MOST_KEPT:,} bytes")
        if any(secret.prefix == PUBLIC for secret in self.secrets):
            raise InvalidEndpoint("a whpk_ key verifies and cannot sign; give the whsk_ key")
        check_headers(self.headers)
