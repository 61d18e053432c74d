"""Signatures of both kinds, by both kinds of keys: made, checked by other code, and refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import cast

import pytest

from mutirao.errors import InvalidSecret, UnverifiedActivity
from mutirao.federation import (
    PublicKey,
    SigningKey,
    Verified,
    sign_cavage,
    sign_rfc9421,
    verify,
)
from mutirao.federation.keys import published
from tests.support.federation import actor_document, is_signed, key_of, signed_text, signing_key

NOW = 1_764_028_800.0
ACTOR = "https://a.example/actor"
URL = "http://b.example:8080/inbox?page=1"
BODY = json.dumps({"type": "Create", "actor": ACTOR}).encode()
WAYS = {"rfc9421": sign_rfc9421, "cavage": sign_cavage}


class OneKey:
    """Knows one key."""

    def __init__(self, kind: str) -> None:
        """Keep the key."""
        self.found = PublicKey(f"{ACTOR}#main-key", ACTOR, key_of(kind).public_key())

    async def key(self, id: str, *, again: bool = False) -> PublicKey | None:
        """Return it."""
        return None if again else self.found


def signed(way: str, kind: str, body: bytes = BODY, method: str = "POST") -> dict[str, str]:
    """Return the headers of a signed request."""
    signer = WAYS[way](signing_key(kind, ACTOR), now=lambda: NOW)
    return {**cast(Mapping[str, str], signer(method, URL, {}, body)), "Accept": "x"}


async def verified(kind: str, headers: dict[str, str], **others: object) -> Verified:
    """Verify a request that differs so from what was signed."""
    given = {"method": "POST", "url": URL, "body": BODY, "now": NOW, **others}
    return await verify(headers=headers, keys=OneKey(kind), **given)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["rsa", "ed25519"])
@pytest.mark.parametrize("way", WAYS)
async def test_a_request_is_signed(way: str, kind: str) -> None:
    """Other code finds it signed, and the receiver's side does."""
    headers = signed(way, kind)
    small = {name.lower(): value for name, value in headers.items()}
    text = signed_text("POST", "b.example:8080", "/inbox?page=1", small, BODY)
    assert is_signed(kind, text, small["signature"])
    assert await verified(kind, headers) == Verified(ACTOR, f"{ACTOR}#main-key", way)  # type: ignore[arg-type]
    twice = {**headers, "Via": "a", "via": "b"}  # two proxies
    assert (await verified(kind, twice)).actor == ACTOR
    got = signed(way, kind, b"", "GET")
    assert (await verified(kind, got, body=b"", method="GET")).actor == ACTOR


Change = Callable[[dict[str, str]], dict[str, object]]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda h: {"body": BODY + b" "}, "does not fit|another body"),
        (lambda h: {"body": b""}, "does not fit|of another|covers"),
        (lambda h: {"url": URL.replace("1", "2")}, "does not fit"),
        (lambda h: {"url": URL.replace("b.", "c.")}, "does not fit"),
        (lambda h: {"url": URL.replace("b.", "[")}, "does not fit"),
        (lambda h: {"url": URL.replace("8080", "x")}, "does not fit"),
        (lambda h: {"method": "PUT"}, "does not fit"),
        (lambda h: {"now": NOW + 3_601}, "before now"),
        (lambda h: {"now": NOW - 3_601}, "before now"),
        (lambda h: h.pop("Signature") and {}, "no Signature|does not fit"),
        (lambda h: h.update(Signature="x" * 9_000) or {}, "no Signature|does not fit"),
        (lambda h: h.update(signature="x") or {}, "is there twice"),
        (lambda h: h.update({"Signature-Input": "sig1=()"}) or {}, "key's id is None"),
        (lambda h: h.update({"Signature-Input": "a=();x, b=()"}) or {}, "a: the key's .*; b: the"),
        (lambda h: h.update({"Signature-Input": "a=x, b=1"}) or {}, "cannot be read"),
        (lambda h: h.update({"Signature-Input": ""}) or {}, "0 signatures"),
        (lambda h: h.update({"Signature-Input": "é("}) or {}, "cannot be read"),
    ],
)
async def test_what_is_not_what_was_signed_is_refused(
    way: str, change: Change, message: str
) -> None:
    """Whatever was changed on the way, or is said to have been."""
    headers = signed(way, "ed25519")
    others = change(headers)
    with pytest.raises(UnverifiedActivity, match=message):
        await verified("ed25519", headers, **others)


@pytest.mark.parametrize("way", WAYS)
async def test_an_activity_of_somebody_else_is_refused(way: str) -> None:
    """Unless it is said that it may be forwarded."""
    body = json.dumps({"actor": "https://a.example/other"}).encode()
    headers = signed(way, "rsa", body)
    with pytest.raises(UnverifiedActivity, match="expected the same actor"):
        await verified("rsa", headers, body=body)
    assert (await verified("rsa", headers, body=body, forwarded=True)).actor == ACTOR


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ("date", "covers 'date'"),
        ("(request-target) host date", "digest"),
        ("(request-target) host digest", r"date or \(created\)"),
    ],
)
async def test_a_signature_that_says_too_little(names: str, message: str) -> None:
    """Is refused before anybody is asked for a key."""
    headers = signed("cavage", "rsa")
    headers["Signature"] = headers["Signature"].replace("(request-target) host date digest", names)
    with pytest.raises(UnverifiedActivity, match=message):
        await verified("rsa", headers)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [("X", "\udce9", "does not fit"), ("Digest", "SHA-256=\udce9", "another body")],
)
async def test_bytes_that_are_no_text(name: str, value: str, message: str) -> None:
    """As some servers hand them on: they do not fit, and raise nothing else."""
    headers = {**signed("cavage", "rsa"), name: value}
    headers["Signature"] = headers["Signature"].replace("host date", "host x date")
    with pytest.raises(UnverifiedActivity, match=message):
        await verified("rsa", {"X": "1", **headers})


def test_keys_that_are_published() -> None:
    """In an actor, among several, by themselves, and as a Multikey; of the same server only."""
    for kind in ("rsa", "ed25519"):
        actor = actor_document(kind, ACTOR)
        key = actor["publicKey"]
        for document in (actor, {"publicKey": [{"id": "x"}, key]}, key):
            assert published(document, key["id"]).owner == ACTOR
        for other in ("https://c.example/actor", None):
            with pytest.raises(UnverifiedActivity, match="same server"):
                published({**key, "owner": other}, key["id"])
    # The example of FEP-521a.
    multikey = {
        "id": f"{ACTOR}#ed",
        "controller": ACTOR,
        "publicKeyMultibase": "z6MkrJVnaZkeFzdQyMZu1cgjg7k1pZZ6pvBQ7XJPt4swbTQ2",
    }
    found = published({"id": ACTOR, "assertionMethod": [multikey]}, f"{ACTOR}#ed")
    assert len(found.public.public_bytes_raw()) == 32  # type: ignore[union-attr]
    for text in ("z1", "m1", "z0"):
        with pytest.raises(UnverifiedActivity, match="cannot be read"):
            published({**multikey, "publicKeyMultibase": text}, f"{ACTOR}#ed")
    with pytest.raises(UnverifiedActivity, match="no key of that id"):
        published([multikey], f"{ACTOR}#ed")


def test_a_key_that_cannot_sign() -> None:
    """Is refused where it is made, and the message has nothing of it."""
    with pytest.raises(InvalidSecret, match="cannot be read"):
        SigningKey.from_pem(f"{ACTOR}#k", "secret")
    with pytest.raises(InvalidSecret, match="URL"):
        SigningKey("main-key", key_of("ed25519"))
    assert "private" not in repr(signing_key("ed25519", ACTOR))


class Told:
    """Notes whose hosts may be back."""

    def __init__(self) -> None:
        self.actors: list[str] = []

    async def heard_from(self, actor: str) -> None:
        """Note it."""
        self.actors.append(actor)


async def test_who_is_verified_was_heard_from() -> None:
    """A request that is not verified says nothing about a host."""
    values, headers = Told(), signed("rfc9421", "ed25519")
    with pytest.raises(UnverifiedActivity):
        await verified("ed25519", headers, body=b"{}", federation=values)
    assert values.actors == []
    await verified("ed25519", headers, federation=values)
    assert values.actors == [ACTOR]
