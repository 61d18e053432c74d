"""The receiver's side: who has signed this request, is it whole, and is it of now?"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import re
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import timedelta
from email.utils import parsedate_to_datetime
from typing import Any, Literal, Protocol

import http_sf
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.hashes import SHA256
from http_message_signatures import (
    HTTPMessageSignaturesException,
    HTTPMessageVerifier,
    HTTPSignatureAlgorithm,
    MappingKeyResolver,
)
from http_message_signatures.algorithms import ED25519, RSA_PSS_SHA512, RSA_V1_5_SHA256

from mutirao.errors import UnverifiedActivity
from mutirao.federation.keys import PublicKey
from mutirao.federation.signing import OutgoingRequest, cavage_text

Version = Literal["rfc9421", "cavage"]
TOLERANCE = 3_600.0  # seconds; Mastodon's own is twelve hours
_PART = re.compile(r'\s*([A-Za-z]+)=(?:"([^"]*)"|([0-9]+))\s*(?:,|$)')
_ONCE = {"signature", "signature-input", "digest", "content-digest", "date", "host"}
_HASHES = {"sha-256": hashlib.sha256, "sha-512": hashlib.sha512}


class KeySource(Protocol):
    """Where public keys come from: `RemoteKeys`, or something of a test."""

    async def key(self, id: str, *, again: bool = False) -> PublicKey | None:
        """Return a key; UnverifiedActivity if there is none."""
        ...


class ActorsHeard(Protocol):
    """What is told that an actor was heard from: a `Federation`."""

    async def heard_from(self, actor: str) -> None:
        """Let a delivery through to the host of an actor, if it was down."""
        ...


@dataclass(frozen=True, slots=True)
class Verified:
    """A request that was verified.

    Parameters:
        actor: who owns the key that signed it.
        key_id: of that key.
        version: how it was signed.
    """

    actor: str
    key_id: str
    version: Version


@dataclass(frozen=True, slots=True)
class _Request:
    """A request, with its headers by names in small letters."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes


async def verify(
    method: str,
    url: str,
    headers: Mapping[str, str],
    body: bytes,
    *,
    keys: KeySource,
    forwarded: bool = False,
    tolerance: float = TOLERANCE,
    now: float | None = None,
    federation: ActorsHeard | None = None,
) -> Verified:
    """Return who has signed a request, by RFC 9421 or draft-cavage, or raise.

    The signature has to cover the method, the URL, the body by its digest, and the moment. The key
    is fetched from the signer's server; one that was kept and does not fit is fetched again.

    Parameters:
        method: of the request.
        url: as the sender called it: with your public name, not the one behind a proxy.
        headers: of the request, in any case.
        body: its bytes as they came, before any parsing.
        keys: a `RemoteKeys`.
        forwarded: admit an activity whose `actor` is somebody else than the signer: then the
            signature says nothing about whether it is true.
        tolerance: seconds that its moment may differ from now, in both directions.
        now: Unix seconds; None is the clock of this machine.
        federation: yours. If deliveries to the signer's host are held because it was down, one is
            let through. That costs a look at the host's row.

    Raises:
        UnverifiedActivity: one of these does not hold; the message says which. Answer 401.
    """
    lower = _joined(headers)
    request = _Request(method.upper(), url, lower, body)
    moment = time.time() if now is None else now
    one: _Rfc9421 | _Cavage = (
        _Rfc9421(request, tolerance, moment)
        if "signature-input" in lower
        else _Cavage(request, tolerance, moment)
    )
    key = await keys.key(one.key_id)
    if key is None or not one.fits(key):
        key = await keys.key(one.key_id, again=True)
        if key is None or not one.fits(key):
            raise UnverifiedActivity(f"the signature does not fit the key {one.key_id[:200]}")
    if not forwarded:
        _check_actor(body, key.owner)
    if federation is not None:
        await federation.heard_from(key.owner)
    return Verified(key.owner, key.id, one.version)


def _joined(headers: Mapping[str, str]) -> dict[str, str]:
    """Return headers by names in small letters; those that are there twice joined, as HTTP does."""
    lower: dict[str, str] = {}
    for given, value in headers.items():
        name = given.lower()
        if name in lower and name in _ONCE:
            raise UnverifiedActivity(f"the header {given} is there twice; expected it once")
        lower[name] = f"{lower[name]}, {value}" if name in lower else value
    return lower


def _check_actor(body: bytes, owner: str) -> None:
    """Refuse an activity of somebody else than the owner of the key."""
    if not body:
        return
    try:
        activity = json.loads(body)
    except (ValueError, RecursionError) as unfit:
        raise UnverifiedActivity(f"the body is no JSON: {unfit}") from unfit
    actor = activity.get("actor") if isinstance(activity, dict) else None
    actor = actor.get("id") if isinstance(actor, dict) else actor
    if actor != owner:
        raise UnverifiedActivity(
            f"the activity is of {str(actor)[:200]!r}, and {owner[:200]!r} has signed it; expected"
            " the same actor"
        )


class _Rfc9421:
    """A signature by RFC 9421, of which there has to be one."""

    version: Version = "rfc9421"

    def __init__(self, request: _Request, tolerance: float, now: float) -> None:
        self._request = request
        try:
            given: Any = http_sf.parse(
                request.headers["signature-input"].encode("ascii"), tltype="dictionary"
            )
            [(covered, params)] = given.values()
            names = [str(each[0]) for each in covered]
            self._given: Mapping[str, Any] = dict(params)
        except (ValueError, TypeError, AttributeError, UnicodeError) as unfit:
            raise UnverifiedActivity(f"Signature-Input cannot be read: {unfit}") from unfit
        self.key_id = _key_id(self._given.get("keyid"))
        _check_covered(names, request.url)
        moment = self._given.get("created")
        _check_moment(moment if type(moment) is int else None, tolerance, now)
        expires = self._given.get("expires", now)
        if type(expires) in (int, float) and expires < now - tolerance:
            raise UnverifiedActivity("the signature has expired")

    def fits(self, key: PublicKey) -> bool:
        """Return whether it was made with this key over this request and body."""
        request = self._request
        verifier = _Timeless(
            signature_algorithm=self._algorithm(key),
            key_resolver=MappingKeyResolver(public_keys={self.key_id: key.public}, private_keys={}),
        )
        message = OutgoingRequest(request.method, request.url, dict(request.headers))
        try:
            verifier.verify(message, max_age=None, body=request.body)
        except HTTPMessageSignaturesException:
            return False
        return True

    def _algorithm(self, key: PublicKey) -> type[HTTPSignatureAlgorithm]:
        if isinstance(key.public, Ed25519PublicKey):
            return ED25519
        pss = self._given.get("alg") == RSA_PSS_SHA512.algorithm_id
        return RSA_PSS_SHA512 if pss else RSA_V1_5_SHA256


class _Timeless(HTTPMessageVerifier):
    """Leaves the moment to us: the package asks the machine's clock."""

    max_clock_skew = timedelta(days=36_500)

    def validate_created_and_expires(self, sig_input: Any, max_age: Any = None) -> None:
        """Do nothing: it was looked at before."""


def _check_covered(names: Collection[str], url: str) -> None:
    """Refuse a signature that says nothing about the method or the URL."""
    whole = "@target-uri" in names or (
        "@authority" in names
        and (
            "@request-target" in names
            or ("@path" in names and ("@query" in names or "?" not in url))
        )
    )
    if "@method" not in names or not whole:
        raise UnverifiedActivity(
            f"the signature covers {', '.join(names)[:200]}; expected @method and @target-uri"
        )


class _Cavage:
    """A signature by draft-cavage-http-signatures."""

    version: Version = "cavage"

    def __init__(self, request: _Request, tolerance: float, now: float) -> None:
        self._request = request
        given = _cavage_parts(request.headers.get("signature"))
        self.key_id = _key_id(given.get("keyId"))
        self._names = given.get("headers", "date").lower().split()
        try:
            self._signature = base64.b64decode(given.get("signature", ""), validate=True)
            created = int(given["created"]) if "created" in given else None
        except (binascii.Error, ValueError) as unfit:
            raise UnverifiedActivity(f"the signature cannot be read: {unfit}") from unfit
        self._extra = {} if created is None else {"(created)": str(created)}
        needed = {"(request-target)", "host", *(["digest"] if request.body else [])}
        moment = {"date", "(created)"} & {*self._names}
        if not needed <= {*self._names} or not moment:
            raise UnverifiedActivity(
                f"the signature covers {' '.join(self._names)[:200]!r}; expected"
                f" {' '.join(sorted(needed))}, and date or (created)"
            )
        at = created if "(created)" in moment else _date(request.headers.get("date"))
        _check_moment(at, tolerance, now)
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
        except (InvalidSignature, KeyError):
            return False
        return True


def _cavage_parts(header: str | None) -> dict[str, str]:
    """Return the parameters of a `Signature`."""
    if not header or len(header) > 8_192:
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


def _check_digest(header: str, body: bytes) -> None:
    """Refuse a body that has another digest; of those given, one that is known has to fit."""
    known = 0
    for one in header.split(","):
        name, _, text = one.strip().partition("=")
        if (make := _HASHES.get(name.lower())) is None:
            continue
        known += 1
        told = base64.b64encode(make(body).digest()).decode()
        if not hmac.compare_digest(told.encode(), text.encode()):
            raise UnverifiedActivity("the digest is of another body")
    if not known:
        raise UnverifiedActivity(f"the Digest is {header[:100]!r}; expected SHA-256=…")


def _check_moment(at: float | None, tolerance: float, now: float) -> None:
    if at is None or not abs(now - at) <= tolerance:
        told = "no moment" if at is None else f"a moment {now - at:.0f} s before now"
        raise UnverifiedActivity(
            f"the signature is of {told}; expected {tolerance:g} s at most. Check the clock, or"
            " refuse it: it may be a repetition"
        )


def _date(text: str | None) -> float | None:
    try:
        return None if text is None else parsedate_to_datetime(text).timestamp()
    except (ValueError, OverflowError):
        return None  # as if there were none: what cannot be read is refused by whoever asks


def _key_id(id: object) -> str:
    if not isinstance(id, str) or not 0 < len(id) <= 2_048:
        raise UnverifiedActivity(f"the key's id is {id!r:.200}; expected a URL")
    return id
