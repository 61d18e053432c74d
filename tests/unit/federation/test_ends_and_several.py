"""Signatures that end, and several on one request; what is signed is written out by hand."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from typing import cast

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from mutirao.errors import UnverifiedActivity
from mutirao.federation import PublicKey, SigningKey, Verified, sign_rfc9421, verify
from tests.support.federation import key_of

NOW = 1_764_028_800
ACTOR = "https://a.example/ann"
URL = "https://b.example/inbox"
BODY = json.dumps({"type": "Create", "actor": ACTOR}).encode()
OTHER = Ed25519PrivateKey.generate()


class Keys:
    """Knows keys by their ids, of the actor that stands before their `#`; notes who is asked."""

    def __init__(self, **others: Ed25519PrivateKey) -> None:
        """Keep them."""
        self.known = {f"{ACTOR}#main": key_of("ed25519"), **others}
        self.asked: list[str] = []

    async def key(self, id: str, *, again: bool = False) -> PublicKey | None:
        """Return one."""
        self.asked.append(id)
        private = self.known.get(id)
        if private is None:
            raise UnverifiedActivity(f"the key {id} could not be fetched")
        return PublicKey(id, id.partition("#")[0], private.public_key())


async def received(headers: Mapping[str, str], keys: Keys | None = None) -> Verified:
    """Verify a request with these headers."""
    return await verify("POST", URL, headers, BODY, keys=keys or Keys(), now=float(NOW))


def by_cavage(names: str, params: str, lines: str) -> dict[str, str]:
    """Return the headers of a request signed so; `lines` of the text besides those of always."""
    digest = f"SHA-256={base64.b64encode(hashlib.sha256(BODY).digest()).decode()}"
    text = f"(request-target): post /inbox\nhost: b.example\ndigest: {digest}{lines}"
    private = cast(Ed25519PrivateKey, key_of("ed25519"))
    signature = base64.b64encode(private.sign(text.encode())).decode()
    covered = f"(request-target) host digest {names}"
    shown = f'keyId="{ACTOR}#main",{params},headers="{covered}",signature="{signature}"'
    return {"Digest": digest, "Signature": shown, "Date": "Tue, 25 Nov 2025 00:00:00 GMT"}


def ends(at: str, names: str = "(created) (expires)", quote: str = "") -> dict[str, str]:
    """Return the headers of a request whose signature by draft-cavage ends then."""
    lines = f"\n(created): {NOW}"
    lines += f"\n(expires): {at}" if "(expires)" in names else ""
    return by_cavage(names, f"created={NOW},expires={quote}{at}{quote}", lines)


@pytest.mark.parametrize("at", [NOW + 300, NOW, NOW - 30])
@pytest.mark.parametrize("names", ["(created) (expires)", "(created)"])
async def test_a_signature_that_has_not_ended(at: int, names: str) -> None:
    """By draft-cavage: its end is signed, or only said; clocks may differ by half a minute."""
    assert (await received(ends(str(at), names))).version == "cavage"
    assert (await received(ends(str(at), names, '"'))).version == "cavage"


async def test_an_end_with_decimals() -> None:
    """The draft admits them where the end is not signed, and whole seconds where it is."""
    assert (await received(ends(f"{NOW + 1}.5", "(created)"))).actor == ACTOR
    with pytest.raises(UnverifiedActivity, match=r"expires is .*expected Unix seconds"):
        await received(ends(f"{NOW + 1}.5"))


@pytest.mark.parametrize("at", ["0", f"{NOW - 31}", f"{NOW - 60}"])
@pytest.mark.parametrize("names", ["(created) (expires)", "(created)"])
async def test_a_signature_that_has_ended(at: str, names: str) -> None:
    """By draft-cavage, signed or not: the draft says that it is not to be processed."""
    with pytest.raises(UnverifiedActivity, match="has expired"):
        await received(ends(at, names))


@pytest.mark.parametrize("at", ["", "soon", "-1", "9" * 400, "1e9", " 1"])
async def test_an_end_that_cannot_be_read(at: str) -> None:
    """It is no end in the future."""
    with pytest.raises(UnverifiedActivity, match="cannot be read"):
        await received(ends(at, quote='"'))


async def test_an_end_that_was_signed_and_changed() -> None:
    """It does not fit."""
    headers = ends(str(NOW - 60))
    headers["Signature"] = headers["Signature"].replace(f"={NOW - 60}", f"={NOW + 60}")
    with pytest.raises(UnverifiedActivity, match="does not fit"):
        await received(headers)
    headers = ends(str(NOW + 60))
    headers["Signature"] = re.sub(",expires=[0-9]+", "", headers["Signature"])
    with pytest.raises(UnverifiedActivity, match="does not fit"):
        await received(headers)


def by_rfc9421(
    key: str = f"{ACTOR}#main", private: Ed25519PrivateKey | None = None, now: float = NOW
) -> dict[str, str]:
    """Return the headers of a request signed so."""
    signing = SigningKey(key, private or key_of("ed25519"))
    made = sign_rfc9421(signing, now=lambda: now)("POST", URL, {}, BODY)
    return dict(cast(Mapping[str, str], made))


def ending(at: str) -> dict[str, str]:
    """Return the headers of a request whose signature by RFC 9421 ends then."""
    covered = '("@method" "@target-uri" "content-digest")'
    digest = f"sha-256=:{base64.b64encode(hashlib.sha256(BODY).digest()).decode()}:"
    params = f'{covered};created={NOW};expires={at};keyid="{ACTOR}#main"'
    text = (
        f'"@method": POST\n"@target-uri": {URL}\n"content-digest": {digest}\n'
        f'"@signature-params": {params}'
    )
    private = cast(Ed25519PrivateKey, key_of("ed25519"))
    signature = base64.b64encode(private.sign(text.encode())).decode()
    return {
        "Content-Digest": digest,
        "Signature-Input": f"s={params}",
        "Signature": f"s=:{signature}:",
    }


@pytest.mark.parametrize(
    ("at", "message"),
    [
        (f"{NOW + 300}", None),
        (f"{NOW - 30}", None),
        (f"{NOW - 31}", "has expired 31 s ago"),
        (f"{NOW - 60}", "has expired"),
        (f"{NOW + 300}.5", "expected whole Unix seconds"),
        ('"never"', "expected whole Unix seconds"),
        ("?0", "expected whole Unix seconds"),
    ],
)
async def test_the_end_of_a_signature_by_rfc9421(at: str, message: str | None) -> None:
    """It holds, by the same half a minute."""
    if message is None:
        assert (await received(ending(at))).version == "rfc9421"
        return
    with pytest.raises(UnverifiedActivity, match=message):
        await received(ending(at))


def together(*requests: dict[str, str]) -> dict[str, str]:
    """Return the headers of a request with the signatures of all, labelled in their order."""
    named = [
        {name: text.replace("sig1=", f"sig{nth}=", 1) for name, text in each.items()}
        for nth, each in enumerate(requests)
    ]
    return {
        **named[0],
        **{
            name: ", ".join(each[name] for each in named)
            for name in ("Signature-Input", "Signature")
        },
    }


PROXY = "https://proxy.example/keys#1"


@pytest.mark.parametrize("first", [True, False])
async def test_two_signatures(first: bool) -> None:
    """A proxy's stands beside the actor's, in either order; nobody asks for the proxy's key."""
    proxys = by_rfc9421(PROXY, OTHER)
    headers = together(by_rfc9421(), proxys) if first else together(proxys, by_rfc9421())
    keys = Keys()
    assert await received(headers, keys) == Verified(ACTOR, f"{ACTOR}#main", "rfc9421")
    assert keys.asked == [f"{ACTOR}#main"]


async def test_two_signatures_of_one_actor() -> None:
    """One of them is enough: the other may be by a key that is gone, or too old."""
    for other in (by_rfc9421(f"{ACTOR}#old", OTHER), by_rfc9421(now=NOW - 9_999)):
        assert (await received(together(other, by_rfc9421()))).key_id == f"{ACTOR}#main"


async def test_several_signatures_none_of_which_holds() -> None:
    """What is wrong is said of each; three keys at most are asked for."""
    wrong = [by_rfc9421(f"{ACTOR}#k{n}", OTHER) for n in range(5)]
    keys = Keys()
    with pytest.raises(UnverifiedActivity, match=r"#k0 could not.*#k1 could not.*#k2 could not"):
        await received(together(*wrong), keys)
    assert len(keys.asked) == 3
    with pytest.raises(UnverifiedActivity, match="the same actor"):
        await received(
            together(by_rfc9421(PROXY, OTHER), by_rfc9421("https://a.example/eve#k", OTHER)),
            Keys(**{PROXY: OTHER, "https://a.example/eve#k": OTHER}),
        )
    with pytest.raises(UnverifiedActivity, match="9 signatures; expected 1 to 8"):
        await received(together(*[by_rfc9421()] * 9))


async def test_a_signature_under_the_label_of_another() -> None:
    """What one key signed is not taken for what another one did."""
    headers = together(by_rfc9421(), by_rfc9421(f"{ACTOR}#two", OTHER))
    one, two = headers["Signature"].replace("sig0=", "").replace("sig1=", "").split(", ")
    headers["Signature"] = f"sig0={two}, sig1={one}"
    with pytest.raises(UnverifiedActivity, match=r"does not fit.*does not fit"):
        await received(headers, Keys(**{f"{ACTOR}#two": OTHER}))
