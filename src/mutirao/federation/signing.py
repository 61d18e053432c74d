"""Signs requests by RFC 9421, or by the older draft-cavage for servers that know only that.

Both sign the method, the URL and a digest of the body, and the moment. RFC 9421 is by the package
http-message-signatures. No package that is kept up does draft-cavage without dropping the query or
refusing ed25519; it is a line of text, signed by cryptography.
"""

from __future__ import annotations

import base64
import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import formatdate
from urllib.parse import SplitResult, urlsplit

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.hashes import SHA256
from http_message_signatures import HTTPMessageSigner, HTTPSignatureAlgorithm, MappingKeyResolver
from http_message_signatures.algorithms import ED25519, RSA_V1_5_SHA256

from mutirao.federation.keys import SigningKey
from mutirao.webhooks import Signer

Clock = Callable[[], float]  # Unix seconds
COVERED = ("@method", "@target-uri", "@authority")
_USUAL = {"http": 80, "https": 443}


@dataclass
class OutgoingRequest:
    """A request, as http-message-signatures reads it."""

    method: str
    url: str
    headers: dict[str, str]


def sign_rfc9421(key: SigningKey, now: Clock = time.time) -> Signer:
    """Return a signer by RFC 9421, with `Content-Digest` (SHA-256) where there is a body."""
    ed25519 = isinstance(key.private, Ed25519PrivateKey)
    algorithm: type[HTTPSignatureAlgorithm] = ED25519 if ed25519 else RSA_V1_5_SHA256
    keys = MappingKeyResolver(public_keys={}, private_keys={key.id: key.private})
    made = HTTPMessageSigner(signature_algorithm=algorithm, key_resolver=keys)

    def signer(method: str, url: str, headers: Mapping[str, str], body: bytes) -> dict[str, str]:
        message = OutgoingRequest(method, url, {})
        made.sign(
            message,
            key_id=key.id,
            created=datetime.fromtimestamp(now(), UTC),
            label="sig1",
            covered_component_ids=COVERED,
            body=body or None,
        )
        return message.headers

    return signer


def sign_cavage(key: SigningKey, now: Clock = time.time) -> Signer:
    """Return a signer by draft-cavage-http-signatures-12, with `Digest` where there is a body."""

    def signer(method: str, url: str, headers: Mapping[str, str], body: bytes) -> dict[str, str]:
        made = {"Date": formatdate(now(), usegmt=True)}
        if body:
            made["Digest"] = digest_of(body)
        names = ["(request-target)", "host", *(name.lower() for name in made)]
        text = cavage_text(names, method, url, {k.lower(): v for k, v in made.items()})
        signature = base64.b64encode(_signed(key, text.encode())).decode()
        kind = "hs2019" if isinstance(key.private, Ed25519PrivateKey) else "rsa-sha256"
        made["Signature"] = (
            f'keyId="{key.id}",algorithm="{kind}",headers="{" ".join(names)}",'
            f'signature="{signature}"'
        )
        return made

    return signer


def digest_of(body: bytes) -> str:
    """Return the `Digest` of a body."""
    return f"SHA-256={base64.b64encode(hashlib.sha256(body).digest()).decode()}"


def cavage_text(names: list[str], method: str, url: str, headers: Mapping[str, str]) -> str:
    """Return the text that is signed by draft-cavage; KeyError if a header is not there.

    Parameters:
        names: of the signed parts, in small letters and in this order.
        headers: by names in small letters; `host` is taken from the URL if it is not there.
    """
    parts = urlsplit(url)
    target = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
    known = {"host": _host(parts), **headers, "(request-target)": f"{method.lower()} {target}"}
    return "\n".join(f"{name}: {known[name]}" for name in names)


def _host(parts: SplitResult) -> str:
    """Return the value of `Host` that a request to this URL has."""
    name = parts.hostname or ""
    name = f"[{name}]" if ":" in name else name
    usual = parts.port in (None, _USUAL.get(parts.scheme))
    return name if usual else f"{name}:{parts.port}"


def _signed(key: SigningKey, text: bytes) -> bytes:
    if isinstance(key.private, Ed25519PrivateKey):
        return key.private.sign(text)
    return key.private.sign(text, PKCS1v15(), SHA256())
