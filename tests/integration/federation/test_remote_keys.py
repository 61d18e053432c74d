"""Keys of other servers, fetched from real ones."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from mutirao.errors import UnverifiedActivity
from mutirao.federation import RemoteKeys
from mutirao.webhooks import Guard
from tests.support.federation import INSIDE, actor_document, answer_of
from tests.support.webhooks import Peer, Server, serving


def publishing(documents: Callable[[Server], bytes]) -> Callable[[Peer], object]:
    """Answer each request with what the function says at that time."""

    async def behave(peer: Peer) -> None:
        while True:
            await peer.request()
            await peer.say(documents(peer.server))

    return behave


async def test_a_key_is_kept_and_fetched_again_when_it_may_have_changed() -> None:
    """A signature that does not fit asks again, but not within a minute; by whatever event loop."""
    clock = [1_000.0]

    def documents(server: Server) -> bytes:
        kind = "rsa" if len(server.requests) == 1 else "ed25519"
        return answer_of(actor_document(kind, server.url("/actor"), summary="x" * 60_000))

    keys = RemoteKeys(INSIDE, now=lambda: clock[0])
    async with serving(publishing(documents)) as server:  # type: ignore[arg-type]
        id = f"{server.url('/actor')}#main-key"
        first = await keys.key(id)
        assert first
        assert first.owner == server.url("/actor")
        assert await keys.key(id) == first
        assert await keys.key(id, again=True) is None
        clock[0] += 61
        second = await keys.key(id, again=True)
        assert second != first
        assert await asyncio.to_thread(asyncio.run, keys.key(id)) == second
        clock[0] += 61
        assert await asyncio.to_thread(asyncio.run, keys.key(id, again=True)) == second
    assert len(server.requests) == 3
    assert b"accept: application/activity+json" in server.requests[0].lower()
    assert server.requests[0].startswith(b"GET /actor HTTP/1.1\r\n")


async def test_a_key_outlives_a_failure_to_fetch_it_again() -> None:
    """Anybody can send a signature that does not fit, while the key's server is down."""
    clock = [1_000.0]

    def documents(server: Server) -> bytes:
        if len(server.requests) > 1:
            return answer_of({}, "503 Busy")
        return answer_of(actor_document("rsa", server.url("/actor")))

    keys = RemoteKeys(INSIDE, now=lambda: clock[0])
    async with serving(publishing(documents)) as server:  # type: ignore[arg-type]
        id = f"{server.url('/actor')}#main-key"
        first = await keys.key(id)
        clock[0] += 61
        with pytest.raises(UnverifiedActivity, match="503"):
            await keys.key(id, again=True)
        assert await keys.key(id) == first
        assert await keys.key(id, again=True) is None
        clock[0] += 24 * 3_600
        with pytest.raises(UnverifiedActivity, match="503"):
            await keys.key(id)
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (lambda server: answer_of({}, "404 Not Found"), "status 404"),
        (lambda server: answer_of({"a": "x" * 300_000}), "more than 262,144 bytes"),
        (lambda server: b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{", "is no JSON"),
        (lambda server: answer_of(actor_document("rsa", "http://other.example/a")), "no key"),
        (
            lambda server: (
                b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\n"
                b"Location: http://10.0.0.1/actor\r\n\r\n"
            ),
            "unsafe",
        ),
    ],
)
async def test_a_key_that_cannot_be_had(document: Callable[[Server], bytes], message: str) -> None:
    """Is refused, and not asked for again at once."""
    keys = RemoteKeys(INSIDE)
    async with serving(publishing(document)) as server:  # type: ignore[arg-type]
        for _ in range(2):
            with pytest.raises(UnverifiedActivity, match=message):
                await keys.key(f"{server.url('/actor')}#main-key")
    assert len(server.requests) == 1


async def test_a_key_is_not_fetched_from_the_inside() -> None:
    """Whatever the signature says."""
    with pytest.raises(UnverifiedActivity, match="unsafe"):
        await RemoteKeys(Guard()).key("https://169.254.169.254/latest#main-key")
