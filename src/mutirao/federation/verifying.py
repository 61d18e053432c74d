"""Verifies received requests: the signer, the digest of the body, and the age."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from mutirao.errors import UnverifiedActivity
from mutirao.federation.cavage import CavageSignature
from mutirao.federation.keys import PublicKey, origin
from mutirao.federation.received_request import ReceivedRequest, RequestSignature, Version
from mutirao.federation.rfc9421 import signatures_of

TOLERANCE = 3_600.0  # seconds; Mastodon's own is twelve hours
MOST_TRIED = 3  # signatures of a request; each may fetch a key
_ONCE = {"signature", "signature-input", "digest", "content-digest", "date", "host"}


class KeySource(Protocol):
    """A source of public keys: `RemoteKeys`, or one of a test."""

    async def key(self, id: str, *, again: bool = False) -> PublicKey | None:
        """Return a key, None if none is known; UnverifiedActivity says why.

        `again`: a signature does not fit the one that was returned before; it may have changed.
        """
        ...


class ActorsHeard(Protocol):
    """Takes the news that an actor has sent something: a `Federation`."""

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

    The signature has to cover the method, the URL, the body by its digest, and the moment, and not
    to have expired. The key is fetched from the signer's server; one that was kept and does not fit
    is fetched again. Of several signatures by RFC 9421 one has to hold: first those are tried whose
    key is of the actor's server, three in all.

    Parameters:
        method: of the request.
        url: as the sender called it: with your public name, not the one behind a proxy.
        headers: of the request, in any case.
        body: its bytes as they came, before any parsing.
        keys: a `RemoteKeys`.
        forwarded: admit an activity whose `actor` is not the signer: then the
            signature says nothing about whether it is true.
        tolerance: seconds that its moment may differ from now, in both directions.
        now: Unix seconds; None is the clock of this machine.
        federation: yours. If deliveries to the signer's host are held because it was down, one is
            let through. That costs a look at the host's row.

    Raises:
        UnverifiedActivity: one of these checks fails; the message says which. Answer 401.
    """
    request = ReceivedRequest(method.upper(), url, _joined(headers), body)
    actor = None if forwarded or not body else _actor_of(body)
    found = _signatures(request, tolerance, time.time() if now is None else now)
    one, key = await _first_that_holds(_sorted(found, actor)[:MOST_TRIED], keys, actor)
    if federation is not None:
        await federation.heard_from(key.owner)
    return Verified(key.owner, key.id, one.version)


def _signatures(request: ReceivedRequest, tolerance: float, now: float) -> list[RequestSignature]:
    if "signature-input" in request.headers:
        return signatures_of(request, tolerance, now)
    return [CavageSignature(request, tolerance, now)]


def _sorted(found: list[RequestSignature], actor: str | None) -> list[RequestSignature]:
    """Return those first whose key is of the actor's server: no other key can be the actor's."""
    home = origin(actor) if actor else None
    return sorted(found, key=lambda one: home is not None and origin(one.key_id) != home)


async def _first_that_holds(
    found: Iterable[RequestSignature], keys: KeySource, actor: str | None
) -> tuple[RequestSignature, PublicKey]:
    """Return the first signature that holds, with its key; UnverifiedActivity if none does.

    Parameters:
        actor: whose signature it has to be; None: of any actor.
    """
    refused = []
    for one in found:
        try:
            key = await _key_of(one, keys)
            if actor is not None:
                _check_actor(actor, key.owner)
        except UnverifiedActivity as why:
            refused.append(str(why))
        else:
            return one, key
    raise UnverifiedActivity("; ".join(refused))


async def _key_of(one: RequestSignature, keys: KeySource) -> PublicKey:
    """Return the key that a signature was made with, which may have changed."""
    key = await keys.key(one.key_id)
    if key is None or not one.fits(key):
        again = await keys.key(one.key_id, again=True)
        if again is None or again == key or not one.fits(again):
            raise UnverifiedActivity(f"the signature does not fit the key {one.key_id[:200]}")
        key = again
    return key


def _joined(headers: Mapping[str, str]) -> dict[str, str]:
    """Return headers by names in small letters; those that are there twice joined, as HTTP does."""
    lower: dict[str, str] = {}
    for given, value in headers.items():
        name = given.lower()
        if name in lower and name in _ONCE:
            raise UnverifiedActivity(f"the header {given} is there twice; expected it once")
        lower[name] = f"{lower[name]}, {value}" if name in lower else value
    return lower


def _actor_of(body: bytes) -> str:
    """Return the actor of an activity, or the value in its place."""
    try:
        activity = json.loads(body)
    except (ValueError, RecursionError) as unfit:
        raise UnverifiedActivity(f"the body is no JSON: {unfit}") from unfit
    actor = activity.get("actor") if isinstance(activity, dict) else None
    actor = actor.get("id") if isinstance(actor, dict) else actor
    if not isinstance(actor, str):
        raise UnverifiedActivity(f"the activity is of {str(actor)[:200]!r}; expected an actor's id")
    return actor


def _check_actor(actor: str, owner: str) -> None:
    """Refuse an activity that is not of the owner of the key."""
    if actor != owner:
        raise UnverifiedActivity(
            f"the activity is of {actor[:200]!r}, and {owner[:200]!r} has signed it; expected"
            " the same actor"
        )
