"""Verifies signatures of RFC 9421: those of a request that cover enough of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import timedelta
from typing import Any

import http_sf
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from http_message_signatures import (
    HTTPMessageSignaturesException,
    HTTPMessageVerifier,
    HTTPSignatureAlgorithm,
    MappingKeyResolver,
)
from http_message_signatures.algorithms import ED25519, RSA_PSS_SHA512, RSA_V1_5_SHA256

from mutirao.errors import UnverifiedActivity
from mutirao.federation.keys import PublicKey
from mutirao.federation.received_request import (
    ReceivedRequest,
    RequestSignature,
    Version,
    check_expires,
    check_moment,
    checked_id,
)
from mutirao.federation.signing import OutgoingRequest

MOST = 8  # signatures of a request that are read


def signatures_of(request: ReceivedRequest, tolerance: float, now: float) -> list[RequestSignature]:
    """Return the signatures of a request that cover enough and are of now, in their order.

    Raises:
        UnverifiedActivity: none is; the message says why, of each.
    """
    try:
        given: Any = http_sf.parse(
            request.headers["signature-input"].encode("ascii"), tltype="dictionary"
        )
    except (ValueError, TypeError, AttributeError, UnicodeError) as unfit:
        raise UnverifiedActivity(f"Signature-Input cannot be read: {unfit}") from unfit
    if not 1 <= len(given) <= MOST:
        raise UnverifiedActivity(f"there are {len(given)} signatures; expected 1 to {MOST}")
    found: list[RequestSignature] = []
    refused: list[str] = []
    for label, member in given.items():
        try:
            found.append(Rfc9421Signature(request, str(label), member, tolerance, now))
        except UnverifiedActivity as why:
            refused.append(f"{label}: {why}" if len(given) > 1 else str(why))
    if not found:
        raise UnverifiedActivity("; ".join(refused))
    return found


class Rfc9421Signature:
    """One signature of a request.

    Parameters:
        label: of it, among those of the request.
        member: what `Signature-Input` has under this label.

    Raises:
        UnverifiedActivity: it does not cover enough, or is not of now.
    """

    version: Version = "rfc9421"

    def __init__(
        self, request: ReceivedRequest, label: str, member: Any, tolerance: float, now: float
    ) -> None:
        self._request, self._label = request, label
        try:
            covered, params = member
            names = [str(each[0]) for each in covered]
            self._given: Mapping[str, Any] = dict(params)
        except (ValueError, TypeError, IndexError) as unfit:
            raise UnverifiedActivity(f"Signature-Input cannot be read: {unfit}") from unfit
        self.key_id = checked_id(self._given.get("keyid"))
        _check_covered(names, request.url)
        moment = self._given.get("created")
        check_moment(moment if type(moment) is int else None, tolerance, now)
        expires = self._given.get("expires")
        if expires is not None and type(expires) is not int:
            raise UnverifiedActivity(f"expires is {expires!r:.50}; expected whole Unix seconds")
        check_expires(expires, now)

    def fits(self, key: PublicKey) -> bool:
        """Return whether it was made with this key over this request and body."""
        request = self._request
        verifier = _OneOfThem(
            self._label,
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


class _OneOfThem(HTTPMessageVerifier):
    """Looks at the signature of one label, and leaves the moment to us.

    The package asks the machine's clock, and wants a tag where there are several signatures.
    """

    max_clock_skew = timedelta(days=36_500)

    def __init__(self, label: str, **options: Any) -> None:
        super().__init__(**options)
        self._label = label

    def validate_created_and_expires(self, sig_input: Any, max_age: Any = None) -> None:
        """Do nothing: it was looked at before."""

    def _get_sig_inputs_and_signatures(
        self, message: Any, *, expect_tag: Any = None, expect_label: Any = None
    ) -> Any:
        found: Any = super()
        return found._get_sig_inputs_and_signatures(message, expect_label=self._label)


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
