"""Whose key it is: the owner's own document says so, served as what it is. By real servers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, cast

import pytest

from mutirao.errors import UnverifiedActivity
from mutirao.federation import RemoteKeys, SigningKey, Verified, sign_cavage, sign_rfc9421, verify
from tests.support.federation import ACTIVITY, INSIDE, actor_document, answer_of, key_of
from tests.support.webhooks import Peer, serving

NOW = 1_764_028_800.0
URL = "http://b.example:8080/inbox"
WAYS = {"rfc9421": sign_rfc9421, "cavage": sign_cavage}
LINKED = 'application/ld+json; profile="https://www.w3.org/ns/activitystreams"'


class Answered(NamedTuple):
    """What a path of the server answers: a document, as what; or where else it is."""

    document: object
    kind: str = ACTIVITY
    moved_to: str = ""


Site = dict[str, Answered]  # by path


def answering(site: Callable[[str], Site], origin: list[str]) -> Callable[[Peer], Any]:
    """Answer with what the site has at the path that is asked for."""

    async def behave(peer: Peer) -> None:
        while True:
            path = (await peer.request()).split(b" ")[1].decode()
            page = site(origin[0]).get(path)
            if page is None:
                await peer.say(answer_of({}, "404 Not Found"))
            elif page.moved_to:
                head = (
                    f"HTTP/1.1 302 Found\r\nLocation: {page.moved_to}\r\nContent-Length: 0\r\n\r\n"
                )
                await peer.say(head.encode())
            else:
                await peer.say(answer_of(page.document, kind=page.kind))

    return behave


def key_at(id: str, owner: str, kind: str = "ed25519") -> dict[str, Any]:
    """Return what publishes a key of this id: the attacker's, unless it is `rsa`."""
    return {**actor_document(kind, owner)["publicKey"], "id": id}


def ann(at: str, *named: object, **more: Any) -> dict[str, Any]:
    """Return the actor of whom the tests are, with her own key, and what else she names."""
    document = actor_document("rsa", f"{at}/ann", **more)
    return {**document, "publicKey": [document["publicKey"], *named]}


async def received(site: Callable[[str], Site], key: str, way: str) -> tuple[Verified, int]:
    """Receive a Create by `/ann` signed with the key of this path; also how many were asked."""
    origin = [""]
    async with serving(answering(site, origin)) as server:
        origin[0] = f"http://a.example:{server.port}"
        body = json.dumps({"type": "Create", "actor": f"{origin[0]}/ann"}).encode()
        signer = WAYS[way](SigningKey(origin[0] + key, key_of("ed25519")), now=lambda: NOW)
        headers = cast(Mapping[str, str], signer("POST", URL, {}, body))
        keys = RemoteKeys(INSIDE)
        verified = await verify("POST", URL, headers, body, keys=keys, now=NOW)
        assert verified.actor == f"{origin[0]}/ann"
        assert await keys.key(verified.key_id)
        return verified, len(server.requests)


def upload(kind: str) -> Callable[[str], Site]:
    """Return a site to which somebody uploaded a file that says it has a key of `/ann`."""

    def site(at: str) -> Site:
        file = {"publicKey": key_at(f"{at}/file#k", f"{at}/ann")}
        return {"/ann": Answered(ann(at)), "/file": Answered(file, kind)}

    return site


def mallory(at: str) -> Site:
    """Another actor, whose key says that it is of `/ann`."""
    other = {**actor_document("rsa", f"{at}/mallory")}
    other["publicKey"] = key_at(f"{at}/mallory#k", f"{at}/ann")
    return {"/ann": Answered(ann(at)), "/mallory": Answered(other)}


def open_redirect(at: str) -> Site:
    """A path that leads wherever its caller says, such as to an upload."""
    file = {"id": f"{at}/ann", "publicKey": key_at(f"{at}/out?to=/file#k", f"{at}/ann")}
    moved = Answered(None, moved_to=f"{at}/file")
    return {"/ann": Answered(ann(at)), "/out?to=/file": moved, "/file": Answered(file)}


def not_by_her_own(at: str) -> Site:
    """A document of the owner's that is no document of an actor, as who serves it says."""
    named = Answered(ann(at, f"{at}/file#k"), "application/json")
    return {"/ann": named, "/file": Answered(key_at(f"{at}/file#k", f"{at}/ann"))}


def of_another_id(at: str) -> Site:
    """A document at the owner's URL that is somebody else's."""
    named = Answered({**ann(at, f"{at}/file#k"), "id": f"{at}/eve"})
    return {"/ann": named, "/file": Answered(key_at(f"{at}/file#k", f"{at}/ann"))}


def another_key(at: str) -> Site:
    """The owner has a key of that id; the document of the key itself has another one."""
    named = Answered(ann(at, key_at(f"{at}/file#k", f"{at}/ann", "rsa")))
    return {"/ann": named, "/file": Answered(key_at(f"{at}/file#k", f"{at}/ann"))}


def another_owner_there(at: str) -> Site:
    """The owner's document has that key, as one of somebody else's."""
    named = Answered(ann(at, key_at(f"{at}/file#k", f"{at}/eve")))
    return {"/ann": named, "/file": Answered(key_at(f"{at}/file#k", f"{at}/ann"))}


def elsewhere(at: str) -> Site:
    """The owner's URL leads to another server."""
    moved = Answered(None, moved_to=at.replace("a.example", "c.example") + "/there")
    there = Answered(ann(at, f"{at}/file#k"))
    return {
        "/ann": moved,
        "/there": there,
        "/file": Answered(key_at(f"{at}/file#k", f"{at}/ann")),
    }


def owner_elsewhere(at: str) -> Site:
    """A key that says that it is of an actor of another server, or by another scheme."""
    return {"/file": Answered(key_at(f"{at}/file#k", at.replace("http:", "https:") + "/ann"))}


def embedded(at: str) -> Site:
    """A note of hers that anybody could write, in which there is a key."""
    note = {"id": f"{at}/ann/1", "attributedTo": f"{at}/ann", "type": "Note"}
    return {
        "/ann": Answered(ann(at)),
        "/file": Answered({**note, "publicKey": key_at(f"{at}/file#k", f"{at}/ann")}),
    }


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("site", "key", "message"),
    [
        (upload("text/plain"), "/file#k", "'text/plain'; expected application/activity"),
        (upload("application/json"), "/file#k", "expected application/activity"),
        (upload("application/ld+json"), "/file#k", "expected application/activity"),
        (upload('application/ld+json; profile="https://c.example"'), "/file#k", "expected applic"),
        (upload("text/html, application/activity+json"), "/file#k", "expected application/activ"),
        (upload("x\r\nContent-Type: application/activity+json"), "/file#k", "expected applicati"),
        (upload(ACTIVITY), "/file#k", "does not name"),
        (upload(LINKED), "/file#k", "does not name"),
        (mallory, "/mallory#k", "does not name"),
        (embedded, "/file#k", "does not name"),
        (open_redirect, "/out?to=/file#k", "does not name"),
        (not_by_her_own, "/file#k", "'application/json'; expected application/activity"),
        (of_another_id, "/file#k", "says that it is .*eve"),
        (another_key, "/file#k", "another key"),
        (another_owner_there, "/file#k", "another owner"),
        (elsewhere, "/file#k", "expected the same server"),
        (owner_elsewhere, "/file#k", "of the same server"),
    ],
)
async def test_who_does_not_speak_for_an_actor(
    site: Callable[[str], Site], key: str, message: str, way: str
) -> None:
    """A file, another actor or a redirect of the same server; and nothing of another one."""
    with pytest.raises(UnverifiedActivity, match=message):
        await received(site, key, way)


def in_her_own(kind: str) -> Callable[[str], Site]:
    """Return a site where the key is in the actor's document."""
    return lambda at: {"/ann": Answered(ann(at, key_at(f"{at}/ann#k", f"{at}/ann")), kind)}


def by_itself(named: Callable[[str], object], name: str = "publicKey") -> Callable[[str], Site]:
    """Return a site where the key has a document of its own, which the actor names so."""

    def site(at: str) -> Site:
        actor = {**actor_document("rsa", f"{at}/ann"), name: named(at)}
        moved = Answered(None, moved_to=f"{at}/keys/1/")
        return {
            "/ann": Answered(actor),
            "/keys/1": moved,
            "/keys/1/": Answered(key_at(f"{at}/keys/1", f"{at}/ann")),
        }

    return site


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("site", "key", "asked"),
    [
        (in_her_own(ACTIVITY), "/ann#k", 1),
        (in_her_own("Application/Activity+JSON; charset=utf-8"), "/ann#k", 1),
        (in_her_own(LINKED), "/ann#k", 1),
        (by_itself(lambda at: f"{at}/keys/1"), "/keys/1", 3),
        (by_itself(lambda at: ["x", {"id": f"{at}/keys/1"}]), "/keys/1", 3),
        (by_itself(lambda at: key_at(f"{at}/keys/1", f"{at}/ann")), "/keys/1", 3),
        (by_itself(lambda at: [f"{at}/keys/1"], "assertionMethod"), "/keys/1", 3),
    ],
)
async def test_who_speaks_for_an_actor(
    site: Callable[[str], Site], key: str, asked: int, way: str
) -> None:
    """Her own key, in her document or named by it; it is not asked for again."""
    verified, requests = await received(site, key, way)
    assert (verified.version, requests) == (way, asked)
