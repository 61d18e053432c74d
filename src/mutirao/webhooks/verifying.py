"""Verifies received webhooks: the signature by our secret, and its age."""

from __future__ import annotations

import base64
import binascii
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

from mutirao.errors import ConfigurationError, InvalidWebhook, StaleWebhook, WrongSignature
from mutirao.webhooks.keys import Secret
from mutirao.webhooks.signing import signed_content

MOST_SIGNATURES = 20  # looked at; an ed25519 one costs 100 µs, and the caller is a stranger
_TIMESTAMP = re.compile(r"[0-9]{1,11}")


@dataclass(frozen=True)
class Received:
    """A webhook that was verified.

    Parameters:
        id: the same in all attempts: drop what you have had.
        sent_at: when this attempt was made.
    """

    id: str
    sent_at: datetime


class EndpointsHeard(Protocol):
    """Takes the news that a peer has sent something: `app.endpoints`."""

    def heard_from(self, id: str) -> None:
        """Let one delivery through to an endpoint whose breaker is open."""
        ...

    async def aheard_from(self, id: str) -> None:
        """Do the same from asynchronous code."""
        ...


def verify(
    headers: Mapping[str, str],
    body: bytes,
    secret: str | Iterable[str],
    *,
    tolerance: float = 300,
    now: float | None = None,
    endpoints: EndpointsHeard | None = None,
    sender: str | None = None,
) -> Received:
    """Return the id and time of a webhook that was signed with the secret, or raise.

    All signatures are compared with all secrets, in constant time each, whichever fits.

    Parameters:
        headers: of the request, in any case.
        body: its bytes as they came, before any parsing.
        secret: `whsec_…`, or the sender's `whpk_…`; several while one is rotated.
        tolerance: seconds that the attempt's time may differ from now, in both directions.
        now: Unix seconds; None is the clock of this machine.
        endpoints: `app.endpoints`, where the sender has an endpoint, too.
        sender: the id of that endpoint. If its deliveries are held because it was down, one is let
            through: it is back, perhaps. In asynchronous code give it to `averify`.

    Raises:
        InvalidSecret: the secret itself cannot be one.
        InvalidWebhook: a header is missing, there twice or unreadable; the next two are such.
        StaleWebhook: signed, but for a time too long ago, or ahead.
        WrongSignature: no signature fits: another secret, or another body than was signed.
        ConfigurationError: of `endpoints` and `sender` one is given.
    """
    _check_both(endpoints, sender)
    received = _verified(headers, body, secret, tolerance, now)
    if endpoints is not None and sender is not None:
        endpoints.heard_from(sender)
    return received


async def averify(
    headers: Mapping[str, str],
    body: bytes,
    secret: str | Iterable[str],
    *,
    tolerance: float = 300,
    now: float | None = None,
    endpoints: EndpointsHeard | None = None,
    sender: str | None = None,
) -> Received:
    """Do as `verify` does, from asynchronous code: the loop runs while the database is read."""
    _check_both(endpoints, sender)
    received = _verified(headers, body, secret, tolerance, now)
    if endpoints is not None and sender is not None:
        await endpoints.aheard_from(sender)
    return received


def _check_both(endpoints: EndpointsHeard | None, sender: str | None) -> None:
    if (endpoints is None) != (sender is None):
        raise ConfigurationError(
            f"endpoints is {endpoints!r:.80} and sender is {sender!r:.80}; give app.endpoints and"
            " the id of the sender's endpoint there, or neither"
        )


def _verified(
    headers: Mapping[str, str],
    body: bytes,
    secret: str | Iterable[str],
    tolerance: float,
    now: float | None,
) -> Received:
    if not isinstance(body, bytes):
        raise InvalidWebhook(
            f"the body is of type {type(body).__name__}; give the bytes of the request as they "
            "came, not what was parsed of them"
        )
    secrets = [Secret.parse(each) for each in ([secret] if isinstance(secret, str) else secret)]
    id, timestamp, signature = _three(headers)
    content = signed_content(id, timestamp, body)
    if not _fits(secrets, content, _signatures(signature)):
        raise WrongSignature(
            f"no signature of webhook {id[:80]!r} fits; check that the secret is this endpoint's, "
            "and that the body is given as it came"
        )
    return _recent(id, int(timestamp), tolerance, time.time() if now is None else now)


def _three(headers: Mapping[str, str]) -> tuple[str, str, str]:
    id, timestamp, signature = (
        _header(headers, f"webhook-{name}") for name in ("id", "timestamp", "signature")
    )
    if not _TIMESTAMP.fullmatch(timestamp):
        raise InvalidWebhook(
            f"webhook-timestamp is {timestamp[:40]!r}; expected whole Unix seconds. Refuse the "
            "request: this is no standard webhook"
        )
    if not id.isprintable():  # some servers hand on bytes that are no UTF-8 as lone surrogates
        raise InvalidWebhook(
            f"webhook-id is {id[:80]!r}; expected printable text. Refuse the request"
        )
    return id, timestamp, signature


def _header(headers: Mapping[str, str], name: str) -> str:
    found = [value for key, value in headers.items() if key.lower() == name]
    if len(found) != 1 or not found[0]:
        raise InvalidWebhook(
            f"the header {name} is there {len(found)} times or empty; expected once. Refuse the "
            "request, or give all headers as they came"
        )
    return found[0]


def _signatures(header: str) -> list[tuple[str, bytes]]:
    """Return version and bytes of each signature; those of unknown form are for others."""
    found = []
    for one in header.split(" ")[:MOST_SIGNATURES]:
        version, _, text = one.partition(",")
        try:
            found.append((version, base64.b64decode(text, validate=True)))
        except (binascii.Error, ValueError):
            continue  # what this cannot be is not a signature of ours; the others are looked at
    return found


def _fits(secrets: list[Secret], content: bytes, signatures: list[tuple[str, bytes]]) -> bool:
    found = [
        secret.signed(content, signature)
        for secret in secrets
        for version, signature in signatures
        if version == secret.version
    ]
    return any(found)


def _recent(id: str, timestamp: int, tolerance: float, now: float) -> Received:
    if not abs(now - timestamp) <= tolerance:
        raise StaleWebhook(
            f"webhook {id[:80]!r} is of {timestamp}, {now - timestamp:.0f} s before now; expected "
            f"{tolerance:g} s at most. Check the clock, or refuse it: it may be a repetition"
        )
    return Received(id, datetime.fromtimestamp(timestamp, UTC))
