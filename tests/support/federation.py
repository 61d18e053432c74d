"""Keys of actors, and a check of signatures that shares no code with the sender."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Sequence
from functools import cache
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from nacl.signing import VerifyKey

from mutirao.federation import SigningKey
from mutirao.webhooks import Guard


@cache
def key_of(kind: str) -> RSAPrivateKey | Ed25519PrivateKey:
    """Return a key of a kind, `rsa` or `ed25519`, the same in all tests."""
    return generate_private_key(65_537, 2_048) if kind == "rsa" else Ed25519PrivateKey.generate()


def signing_key(kind: str, actor: str) -> SigningKey:
    """Return the key of an actor."""
    return SigningKey(f"{actor}#main-key", key_of(kind))


def actor_document(kind: str, actor: str, **more: Any) -> dict[str, Any]:
    """Return the document of an actor with its key."""
    pem = (
        key_of(kind)
        .public_key()
        .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    key = {"id": f"{actor}#main-key", "owner": actor, "publicKeyPem": pem.decode()}
    return {"id": actor, "type": "Service", "inbox": f"{actor}/inbox", "publicKey": key, **more}


ACTIVITY = "application/activity+json"


def answer_of(document: object, status: str = "200 OK", kind: str = ACTIVITY) -> bytes:
    """Return the bytes of an answer with a document of JSON, of this content type."""
    body = json.dumps(document).encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


async def here(host: str, port: int) -> Sequence[str]:
    """Resolve every name to this machine."""
    return ["127.0.0.1"]


INSIDE = Guard(schemes=["http"], ports=range(1, 65_536), networks=["127.0.0.0/8"], resolve=here)


def signed_text(
    method: str, authority: str, target: str, headers: dict[str, str], body: bytes
) -> bytes:
    """Return the bytes that the headers say were signed, written out by hand for our own form."""
    digest = base64.b64encode(hashlib.sha256(body).digest()).decode()
    if "signature-input" in headers:
        params = headers["signature-input"].removeprefix("sig1=")
        assert headers["content-digest"] == f"sha-256=:{digest}:"
        assert params.startswith('("@method" "@target-uri" "@authority" "content-digest");created=')
        return (
            f'"@method": {method}\n"@target-uri": http://{authority}{target}\n'
            f'"@authority": {authority}\n"content-digest": sha-256=:{digest}:\n'
            f'"@signature-params": {params}'
        ).encode()
    assert headers["digest"] == f"SHA-256={digest}"
    assert 'headers="(request-target) host date digest"' in headers["signature"]
    return (
        f"(request-target): {method.lower()} {target}\nhost: {authority}\n"
        f"date: {headers['date']}\ndigest: SHA-256={digest}"
    ).encode()


def is_signed(kind: str, text: bytes, header: str) -> bool:
    """Return whether a `Signature` is one of this text: by PyNaCl, or by RSA's arithmetic."""
    found = re.search(r'sig1=:([^:]+):|signature="([^"]+)"', header)
    assert found
    signature = base64.b64decode(found[1] or found[2])
    key = key_of(kind)
    if isinstance(key, Ed25519PrivateKey):
        raw = key.public_key().public_bytes_raw()
        return VerifyKey(raw).verify(text, signature) == text
    numbers = key.public_key().public_numbers()
    size = (numbers.n.bit_length() + 7) // 8
    opened = pow(int.from_bytes(signature, "big"), numbers.e, numbers.n).to_bytes(size, "big")
    prefix = bytes.fromhex("3031300d060960864801650304020105000420")  # says that it is SHA-256
    tail = b"\0" + prefix + hashlib.sha256(text).digest()
    return opened == b"\0\1" + b"\xff" * (size - 2 - len(tail)) + tail
