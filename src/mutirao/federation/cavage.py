"""Verifies signatures of draft-cavage-http-signatures-12."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import math
import re
from email.utils import parsedate_to_datetime

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.hashes import SHA256

from mutirao.errors import UnverifiedActivity
from mutirao.federation.keys import PublicKey
from mutirao.federation.received_request import (
    WHOLE_NUMBER,
    ReceivedRequest,
    Version,
    check_expires,
    check_moment,
    checked_id,
)
from mutirao.federation.signing import cavage_text

LONGEST = 8_192  # characters of a Signature
_PART = re.compile(r'\s*([A-Za-z]+)=(?:"([^"]*)"|([0-9]+(?:\.[0-9]+)?))\s*(?:,|$)')
_NUMBER = re.compile(r"[0-9]{1,15}(?:\.[0-9]{1,9})?")
_HASHES = {"sha-256": hashlib.sha256, "sha-512": hashlib.sha512}


class CavageSignature:
    """The signature of a request, which covers enough and is of now.

    Raises:
        UnverifiedActivity: the signature does not hold; the message says what is missing.
    """

    version: Version = "cavage"

    def __init__(self, request: ReceivedRequest, tolerance: float, now: float) -> None:
        self._request = request
        given = _parts(request.headers.get("signature"))
        self.key_id = checked_id(given.get("keyId"))
        self._names = given.get("headers", "date").lower().split()
        try:
            self._signature = base64.b64decode(given.get("signature", ""), validate=True)
        except (binascii.Error, ValueError) as unfit:
            raise UnverifiedActivity(f"the signature cannot be read: {unfit}") from unfit
        self._extra = {f"({n})": given[n] for n in ("created", "expires") if n in given}
        self._check_covered()
        self._check_times(given, tolerance, now)
        if request.body or "digest" in self._names:
            _check_digest(request.headers.get("digest", ""), request.body)

    def fits(self, key: PublicKey) -> bool:
        """Return whether it was made with this key over this request."""
        request = self._request
        headers = {**request.headers, **self._extra}
        headers.pop("host", None)  # the one of the URL, which is ours
        try:
            text = cavage_text(self._names, request.method, request.url, headers).encode()
            if isinstance(key.public, Ed25519PublicKey):
                key.public.verify(self._signature, text)
            else:
                key.public.verify(self._signature, text, PKCS1v15(), SHA256())
        except (InvalidSignature, KeyError, ValueError):
            return False  # ValueError: of a Host that cannot be one, or of bytes that are no text
        return True

    def _check_covered(self) -> None:
        names = {*self._names}
        needed = {"(request-target)", "host", *(["digest"] if self._request.body else [])}
        if not needed <= names or not {"date", "(created)"} & names:
            raise UnverifiedActivity(
                f"the signature covers {' '.join(self._names)[:200]!r}; expected"
                f" {' '.join(sorted(needed))}, and date or (created)"
            )

    def _check_times(self, given: dict[str, str], tolerance: float, now: float) -> None:
        """Refuse a signature of another time. By the draft an unsigned end applies, too."""
        created = _seconds(given, "created", whole=True)
        expires = _seconds(given, "expires", whole="(expires)" in self._names)
        signed = "(created)" in self._names
        check_moment(
            created if signed else _date(self._request.headers.get("date")), tolerance, now
        )
        check_expires(expires, now)


def _parts(header: str | None) -> dict[str, str]:
    """Return the parameters of a `Signature`."""
    if not header or len(header) > LONGEST:
        raise UnverifiedActivity("the request has no Signature; expected one that can be read")
    parts: dict[str, str] = {}
    at = 0
    while at < len(header):
        found = _PART.match(header, at)
        if found is None or found[1] in parts:
            raise UnverifiedActivity(f"the Signature {header[:200]!r} cannot be read")
        parts[found[1]] = found[2] if found[2] is not None else found[3]
        at = found.end()
    return parts


def _seconds(given: dict[str, str], name: str, *, whole: bool) -> float | None:
    """Return Unix seconds that a parameter has; None if it is not there.

    The draft admits decimals in `expires`, and none where it is signed.
    """
    text = given.get(name)
    if text is None:
        return None
    if not (WHOLE_NUMBER if whole else _NUMBER).fullmatch(text):
        raise UnverifiedActivity(
            f"the signature cannot be read: {name} is {text[:50]!r}; expected Unix seconds"
        )
    return float(text)


def _check_digest(header: str, body: bytes) -> None:
    """Refuse a body that has another digest; of those given, one that is known has to fit."""
    known = 0
    for one in header.split(","):
        name, _, text = one.strip().partition("=")
        if (make := _HASHES.get(name.lower())) is None:
            continue
        known += 1
        computed = base64.b64encode(make(body).digest()).decode()
        if not hmac.compare_digest(computed.encode(), text.encode(errors="replace")):
            raise UnverifiedActivity("the digest is of another body")
    if not known:
        raise UnverifiedActivity(f"the Digest is {header[:100]!r}; expected SHA-256=…")


def _date(text: str | None) -> float | None:
    try:
        at = None if text is None else parsedate_to_datetime(text).timestamp()
    except (ValueError, OverflowError):
        return None  # as if there were none: what cannot be read is refused by the caller
    return at if at is None or math.isfinite(at) else None
