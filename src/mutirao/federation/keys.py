"""Keys of actors: our own, which sign, and those that other servers publish, which verify."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self
from urllib.parse import urlsplit

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key

from mutirao.errors import InvalidSecret, UnverifiedActivity
from mutirao.webhooks.guard import PORTS

SMALLEST_RSA = 2_048  # bits
LARGEST_RSA = 8_192  # bits; larger ones only cost time
_MATERIAL = {"publicKeyPem", "publicKeyMultibase"}
_ED25519 = b"\xed\x01"  # before the bytes of a Multikey
_BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A key that signs, and the name under which others find its public half.

    Parameters:
        id: its URL, such as `https://a.example/actor#main-key`.
        private: an RSA key of at least 2,048 bits, or an ed25519 key. In no repr and no log.

    Raises:
        InvalidSecret: it is another kind of key, too small, or its id is no URL.
    """

    id: str
    private: RSAPrivateKey | Ed25519PrivateKey = field(repr=False)

    def __post_init__(self) -> None:
        if not str(self.id).startswith(("https://", "http://")):
            raise InvalidSecret(f"the key's id is {self.id!r:.200}; give the URL of its public key")
        if isinstance(self.private, RSAPrivateKey) and self.private.key_size < SMALLEST_RSA:
            raise InvalidSecret(
                f"the RSA key {self.id} has {self.private.key_size} bits; give {SMALLEST_RSA} or"
                " more"
            )
        if not isinstance(self.private, RSAPrivateKey | Ed25519PrivateKey):
            raise InvalidSecret(
                f"the key {self.id} is a {type(self.private).__name__}; give an RSA or ed25519 key"
            )

    @classmethod
    def from_pem(cls, id: str, pem: str | bytes, password: bytes | None = None) -> Self:
        """Return a key from PEM.

        Raises:
            InvalidSecret: it is no private key in PEM, or of another kind.
        """
        data = pem.encode() if isinstance(pem, str) else pem
        try:
            private = load_pem_private_key(data, password)
        except (ValueError, TypeError, UnsupportedAlgorithm):
            raise InvalidSecret(
                f"the key {id} cannot be read; expected a private key in PEM, of RSA or ed25519,"
                " and its password if it has one"
            ) from None  # the error may show some of it
        return cls(id, private)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A key that another server published: its URL, the actor whose it is, and the key."""

    id: str
    owner: str
    public: RSAPublicKey | Ed25519PublicKey


def published(document: object, id: str) -> PublicKey:
    """Return the key of this id that a document publishes: an actor's, or the key's own.

    `publicKey` with `publicKeyPem`, and `assertionMethod` with an ed25519 `Multikey`, are read.
    The document only claims its owner: `check_named` checks that at the owner.

    Raises:
        UnverifiedActivity: it has no such key, or the key cannot be that of its owner.
    """
    if isinstance(document, Mapping):
        for each in (document, *_named_in(document)):
            if isinstance(each, Mapping) and each.get("id") == id and _MATERIAL & each.keys():
                return _key(each, id)
    raise UnverifiedActivity(f"the document of the key {id[:200]} has no key of that id")


def check_named(document: object, key: PublicKey) -> None:
    """Refuse a key that its owner's own document does not name.

    Anybody who may store a document on the owner's server can name an owner in it.

    Parameters:
        document: the answer at the owner's URL.

    Raises:
        UnverifiedActivity: it is the document of another id, does not name the key, or has another
            key or owner under its id.
    """
    found = document if isinstance(document, Mapping) else {}
    if found.get("id") != key.owner:
        raise UnverifiedActivity(
            f"the document at {key.owner[:200]} says that it is {str(found.get('id'))[:200]!r};"
            f" expected that of the owner of the key {key.id[:200]}"
        )
    named = [each for each in _named_in(found) if each == key.id or _id_of(each) == key.id]
    if not named:
        raise UnverifiedActivity(
            f"{key.owner[:200]} does not name the key {key.id[:200]}, which says that it is of that"
            " actor; expected it in publicKey or assertionMethod"
        )
    for each in named:
        _check_same(each, key)


def _check_same(named: object, key: PublicKey) -> None:
    if not isinstance(named, Mapping):
        return
    owner = named.get("owner") or named.get("controller") or key.owner
    if owner != key.owner:
        raise UnverifiedActivity(f"{key.owner[:200]} has the key {key.id[:200]} as another owner's")
    if _MATERIAL & named.keys() and _public(named, key.id) != key.public:
        raise UnverifiedActivity(f"{key.owner[:200]} has another key of the id {key.id[:200]}")


def _key(found: Mapping[str, Any], id: str) -> PublicKey:
    owner = found.get("owner") or found.get("controller")
    if not isinstance(owner, str) or (at := origin(owner)) is None or at != origin(id):
        raise UnverifiedActivity(
            f"the key {id[:200]} says that its owner is {str(owner)[:200]!r}; expected an actor"
            " of the same server"
        )
    return PublicKey(id, owner, _public(found, id))


def origin(url: str) -> tuple[str, str, int] | None:
    """Return scheme, host and port of a URL; None if it has none."""
    try:
        parts = urlsplit(url)
        port = parts.port or PORTS.get(parts.scheme)
    except ValueError:
        return None
    return (parts.scheme, parts.hostname, port) if parts.hostname and port else None


def _named_in(document: Mapping[str, Any]) -> list[object]:
    """Return the keys in a document: their ids, or the keys themselves."""
    found = [document.get("publicKey"), document.get("assertionMethod")]
    return [one for each in found for one in (each if isinstance(each, list) else [each])]


def _id_of(named: object) -> object:
    return named.get("id") if isinstance(named, Mapping) else None


def _public(key: Mapping[str, Any], id: str) -> RSAPublicKey | Ed25519PublicKey:
    pem, multibase = key.get("publicKeyPem"), key.get("publicKeyMultibase")
    try:
        if isinstance(pem, str):
            public = load_pem_public_key(pem.encode())
        elif isinstance(multibase, str):
            public = Ed25519PublicKey.from_public_bytes(_multikey(multibase))
        else:
            raise ValueError("neither publicKeyPem nor publicKeyMultibase")
    except (ValueError, UnsupportedAlgorithm) as unfit:
        raise UnverifiedActivity(f"the key {id[:200]} cannot be read: {unfit}") from unfit
    fits = isinstance(public, Ed25519PublicKey) or (
        isinstance(public, RSAPublicKey) and SMALLEST_RSA <= public.key_size <= LARGEST_RSA
    )
    if not fits or not isinstance(public, RSAPublicKey | Ed25519PublicKey):
        raise UnverifiedActivity(
            f"the key {id[:200]} is neither ed25519 nor RSA of {SMALLEST_RSA} to {LARGEST_RSA} bits"
        )
    return public


def _multikey(text: str) -> bytes:
    """Return the bytes of an ed25519 Multikey: base58btc of a prefix and 32 bytes."""
    if not text.startswith("z") or len(text) > 60 or not set(text[1:]) <= {*_BASE58}:
        raise ValueError("publicKeyMultibase is not base58btc")
    number = 0
    for each in text[1:]:
        number = number * 58 + _BASE58.index(each)
    data = number.to_bytes((number.bit_length() + 7) // 8, "big")
    if not data.startswith(_ED25519):
        raise ValueError("publicKeyMultibase is no ed25519 key")
    return data.removeprefix(_ED25519)
