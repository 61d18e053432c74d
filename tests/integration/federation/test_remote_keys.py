"""Keys of other servers, fetched from real ones."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from mutirao.errors import UnverifiedActivity
from mutirao.federation import RemoteKeys, remote_keys
from mutirao.webhooks import Guard
from tests.support.federation import INSIDE, actor_document, answer_of
from tests.support.webhooks import Behaviour, Peer, Server, serving


def publishing(documents: Callable[[Server], bytes]) -> Behaviour:
    """Answer each request with what the function says at that time."""

    async def behave(peer: Peer) -> None:
        while True:
            await peer.request()
            await peer.say(documents(peer.server))

    return behave


async def test_a_key_is_kept_and_fetched_again_when_it_may_have_changed() -> None:
    """A signature that does not fit asks again, even at once, but once a minute; by any loop."""
    clock = [1_000.0]

    def documents(server: Server) -> bytes:
        kind = "rsa" if len(server.requests) == 1 else "ed25519"
        return answer_of(actor_document(kind, server.url("/actor"), summary="x" * 60_000))

    keys = RemoteKeys(INSIDE, now=lambda: clock[0])
    async with serving(publishing(documents)) as server:
        id = f"{server.url('/actor')}#main-key"
        first = await keys.key(id)
        assert first
        assert first.owner == server.url("/actor")
        assert await keys.key(id) == first
        second = await keys.key(id, again=True)
        assert second != first
        assert await keys.key(id, again=True) == second
        assert await asyncio.to_thread(asyncio.run, keys.key(id)) == second
        assert len(server.requests) == 2
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
    async with serving(publishing(documents)) as server:
        id = f"{server.url('/actor')}#main-key"
        first = await keys.key(id)
        with pytest.raises(UnverifiedActivity, match="503"):
            await keys.key(id, again=True)
        assert await keys.key(id) == first
        assert await keys.key(id, again=True) == first
        clock[0] += 24 * 3_600
        with pytest.raises(UnverifiedActivity, match="503"):
            await keys.key(id)
    assert len(server.requests) == 3


@pytest.mark.parametrize("status", ["200 OK", "404 Not Found"])
async def test_one_fetch_serves_all_who_ask_at_once(status: str) -> None:
    """Whoever sends requests chooses what is fetched; by several event loops, and one of many."""
    going_on = asyncio.Event()

    async def behave(peer: Peer) -> None:
        await peer.request()
        await going_on.wait()
        await peer.say(answer_of(actor_document("rsa", peer.server.url("/actor")), status))

    keys = RemoteKeys(INSIDE)
    async with serving(behave) as server:
        id = f"{server.url('/actor')}#main-key"
        asking = [asyncio.create_task(keys.key(id)) for _ in range(30)]
        threads = [
            asyncio.create_task(asyncio.to_thread(asyncio.run, keys.key(id))) for _ in range(3)
        ]
        await asyncio.wait(asking, timeout=0.3)  # so that a second fetch would have come
        going_on.set()
        answers = await asyncio.gather(*asking, *threads, return_exceptions=True)
    assert len({str(answer) for answer in answers}) == 1
    assert isinstance(answers[0], UnverifiedActivity) == (status != "200 OK")
    assert len(server.requests) == 1


async def test_whoever_asked_for_others_goes() -> None:
    """Another one of them asks then; they do not wait in vain."""
    asked = asyncio.Event()

    async def behave(peer: Peer) -> None:
        await peer.request()
        asked.set()
        if len(peer.server.requests) > 1:
            await peer.say(answer_of(actor_document("rsa", peer.server.url("/actor"))))
        await peer.gone()

    keys = RemoteKeys(INSIDE)
    async with serving(behave) as server:
        id = f"{server.url('/actor')}#main-key"
        first, *others = [asyncio.create_task(keys.key(id)) for _ in range(3)]
        await asyncio.wait_for(asked.wait(), 10)
        others[1].cancel()
        first.cancel()
        assert await asyncio.wait_for(others[0], 10)
    assert len(server.requests) == 2


async def test_so_many_keys_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that could not be had, too; what is used stays."""
    monkeypatch.setattr(remote_keys, "REMEMBERED", 3)
    keys = RemoteKeys(INSIDE)
    async with serving(
        publishing(lambda server: answer_of(actor_document("rsa", server.url("/actor"))))
    ) as server:
        id = f"{server.url('/actor')}#main-key"
        for nth in range(9):
            assert await keys.key(id)
            with pytest.raises(UnverifiedActivity):
                await keys.key(f"{server.url('/actor')}#{nth}")
        assert len(server.requests) == 1 + 9
        assert len(keys._had) == 3


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (lambda server: answer_of({}, "404 Not Found"), "status 404"),
        (lambda server: answer_of({"a": "x" * 300_000}), "more than 262,144 bytes"),
        (lambda server: answer_of({})[:-2] + b"{,", "is no JSON"),
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
    async with serving(publishing(document)) as server:
        for _ in range(2):
            with pytest.raises(UnverifiedActivity, match=message):
                await keys.key(f"{server.url('/actor')}#main-key")
    assert len(server.requests) == 1


async def test_a_key_is_not_fetched_from_the_inside() -> None:
    """Whatever the signature says."""
    with pytest.raises(UnverifiedActivity, match="unsafe"):
        await RemoteKeys(Guard()).key("https://169.254.169.254/latest#main-key")
