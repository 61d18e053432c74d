"""Signing by Standard Webhooks 1.0.0: `id.timestamp.body`, by each secret that is in use."""

from __future__ import annotations

import re
from collections.abc import Iterable

from mutirao.errors import InvalidEndpoint, InvalidSecret
from mutirao.webhooks.keys import Secret

_ID = re.compile(r"[!-\-/-~]{1,255}")  # what is seen in ASCII, but no full stop


def sign(id: str, timestamp: int, body: bytes, secrets: Iterable[Secret]) -> dict[str, str]:
    """Return the three headers of a webhook: its id, the time of the attempt, the signatures.

    Each secret that is usable at `timestamp` signs: while a secret is rotated, the new one and
    the previous one, so that receivers may change theirs in between.

    Parameters:
        id: the same for all attempts of a delivery; receivers drop repetitions by it.
        timestamp: when this attempt is made, in whole Unix seconds.
        body: the bytes that are sent.
        secrets: what signs, in this order.

    Raises:
        InvalidEndpoint: the id is empty, too long, has a full stop or what is not visible ASCII.
        InvalidSecret: no secret is usable at that time, or one of them only verifies.
    """
    content = signed_content(checked_id(id), str(timestamp), body)
    signatures = [secret.sign(content) for secret in secrets if secret.usable(timestamp)]
    if not signatures:
        raise InvalidSecret("no secret is left to sign with at this time; give one without until=")
    return {
        "webhook-id": id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(signatures),
    }


def signed_content(id: str, timestamp: str, body: bytes) -> bytes:
    """Return the bytes that are signed."""
    return f"{id}.{timestamp}.".encode() + body


def checked_id(id: str) -> str:
    """Return the id of a webhook; InvalidEndpoint where it cannot be one."""
    if not _ID.fullmatch(id):
        raise InvalidEndpoint(
            f"the webhook id {id[:80]!r} is not 1 to 255 visible ASCII characters without a full "
            "stop, which separates what is signed; take a number or a UUID"
        )
    return id
