"""The secrets and keys of Standard Webhooks: `whsec_` (HMAC-SHA256), `whsk_` and `whpk_` (ed25519).

Bytes of a secret are never in a repr, an error or a log.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
from dataclasses import dataclass, field
from datetime import datetime

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from mutirao.errors import InvalidSecret
from mutirao.model.webhooks.webhook_rules import (
    HALF,
    PRIVATE,
    PUBLIC,
    SHARED,
    how_to_get,
    secret_parts,
)


@dataclass(frozen=True)
class Secret:
    """One secret or key of an endpoint, made by `Secret.parse`.

    Parameters:
        prefix: `whsec_`, `whsk_` or `whpk_`.
        material: its bytes; for `whsk_` the seed.
        until: the time after which it does not sign any more; None: never. For a rotated secret.
    """

    prefix: str
    material: bytes = field(repr=False)
    until: datetime | None = None

    @classmethod
    def parse(cls, text: str, *, until: datetime | None = None) -> Secret:
        """Return the secret in a text: its prefix, then base64.

        Raises:
            InvalidSecret: another prefix, no base64, too short or too long, or a time without
                its zone. The message does not have the secret.
        """
        if until is not None and until.tzinfo is None:
            raise InvalidSecret(f"until={until!r} has no zone; give a datetime with tzinfo")
        prefix, decoded = secret_parts(text)
        return cls(prefix, _seed(decoded) if prefix == PRIVATE else decoded, until)

    @property
    def version(self) -> str:
        """The prefix of its signatures: `v1` (HMAC-SHA256) or `v1a` (ed25519)."""
        return "v1" if self.prefix == SHARED else "v1a"

    def public(self) -> str:
        """Return the `whpk_` of a key, with which receivers verify.

        Raises:
            InvalidSecret: this is a shared secret; it has no public part.
        """
        if self.prefix == SHARED:
            raise InvalidSecret("a whsec_ secret has no public part; make a key with new_key()")
        return _written(PUBLIC, self._public())

    def usable(self, at: float) -> bool:
        """Return whether it signs at `at`, in Unix seconds."""
        return self.until is None or at < self.until.timestamp()

    def sign(self, content: bytes) -> str:
        """Return the signature of `content` in its header form: `v1,…` or `v1a,…`.

        Raises:
            InvalidSecret: a `whpk_` cannot sign.
        """
        if self.prefix == PUBLIC:
            raise InvalidSecret("a whpk_ key verifies and cannot sign; give the whsk_ key")
        if self.prefix == SHARED:
            signature = hmac.digest(self.material, content, hashlib.sha256)
        else:
            signature = Ed25519PrivateKey.from_private_bytes(self.material).sign(content)
        return f"{self.version},{base64.b64encode(signature).decode()}"

    def signed(self, content: bytes, signature: bytes) -> bool:
        """Return whether `signature` is this secret's for `content`, in constant time."""
        if self.prefix == SHARED:
            return hmac.compare_digest(
                hmac.digest(self.material, content, hashlib.sha256), signature
            )
        try:
            Ed25519PublicKey.from_public_bytes(self._public()).verify(signature, content)
        except InvalidSignature:
            return False
        return True

    def _public(self) -> bytes:
        if self.prefix == PUBLIC:
            return self.material
        return _public_of(self.material)


def new_secret() -> str:
    """Return a new random shared secret, `whsec_…` of 32 bytes."""
    return _written(SHARED, os.urandom(32))


def new_key() -> str:
    """Return a new random ed25519 key, `whsk_…`; receivers get `Secret.parse(it).public()`."""
    seed = os.urandom(HALF)
    return _written(PRIVATE, seed + _public_of(seed))


def _public_of(seed: bytes) -> bytes:
    return Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw()


def _written(prefix: str, material: bytes) -> str:
    return prefix + base64.b64encode(material).decode()


def _seed(decoded: bytes) -> bytes:
    """Return the seed: some write it alone, others with the public key behind it."""
    seed, public = decoded[:HALF], decoded[HALF:]
    if public and not hmac.compare_digest(public, _public_of(seed)):
        raise InvalidSecret(
            f"the public half of the whsk_ key is not that of its seed; {how_to_get(PRIVATE)}"
        )
    return seed
