"""The guard at work: a DNS that changes its mind, redirects, and TLS with a private CA."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import httpx2
import pytest
import trustme

from mutirao.errors import SignerFailed, UnsafeUrl
from mutirao.webhooks import (
    Answer,
    Courier,
    DeliveryFailure,
    Guard,
    GuardedTransport,
    Secret,
    Timeouts,
    WebhookRequest,
    new_secret,
    verify,
)
from tests.support.webhooks import (
    OK,
    Peer,
    Server,
    answering,
    closing,
    full,
    name_server,
    serving,
)

PORTS = range(1, 65_536)
SECRET = new_secret()


def moved(to: str, status: int = 307) -> bytes:
    """Return a redirect."""
    return f"HTTP/1.1 {status} Moved\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n".encode()


def request(url: str, redirects: int = 0) -> WebhookRequest:
    """Return a signed request with a secret header."""
    secrets = [Secret.parse(SECRET)]
    headers = {"Authorization": "Bearer s3cret"}
    return WebhookRequest(url, "m", b"x", headers=headers, secrets=secrets, redirects=redirects)


async def test_a_name_that_resolves_to_something_else_the_second_time() -> None:
    """It is asked once for each connection, and what was vetted is what is connected to."""
    async with (
        serving(answering(OK), address="127.0.0.2") as meant,
        serving(answering(OK), address="127.0.0.1") as house,
        name_server("127.0.0.2", "127.0.0.1") as (names, resolve),
    ):
        guard = Guard(["http"], PORTS, ["127.0.0.2/32"], resolve)
        answers = []
        for _ in range(2):
            async with Courier(guard) as courier:
                url = meant.url(host="rebinding.example")
                answers.append(await courier.deliver_once(request(url)))
    assert names.asked == ["rebinding.example"] * 2
    assert [answer.failure for answer in answers] == [None, DeliveryFailure.UNSAFE]
    assert answers[0].address == f"127.0.0.2:{meant.port}"
    assert answers[1].address is None
    assert (meant.connections, house.connections) == (1, 0)


@pytest.mark.parametrize("silent", [False, True])
async def test_the_next_address_is_tried(silent: bool) -> None:
    """All were vetted; the first does not listen, or nothing comes back from it."""

    async def resolve(host: str, port: int) -> Sequence[str]:
        return ["127.0.0.2", "127.0.0.3"]

    guard = Guard(["http"], PORTS, ["127.0.0.0/8"], resolve)
    async with serving(answering(OK), address="127.0.0.3") as server, Courier(guard) as courier:
        asked = replace(request(server.url(host="two.example")), timeouts=Timeouts(connect=1.0))
        with full("127.0.0.2", server.port) if silent else nullcontext():
            answer = await courier.deliver_once(asked)
    assert (answer.ok, answer.address) == (True, f"127.0.0.3:{server.port}")


async def redirected(server: Server, redirects: int, networks: Sequence[str]) -> Answer:
    """Deliver with so many redirects admitted."""
    async with Courier(Guard(["http"], PORTS, networks)) as courier:
        return await courier.deliver_once(request(server.url(), redirects))


async def test_redirects_are_not_followed_unless_asked_for() -> None:
    """Then the answer is the redirect."""
    async with serving(answering(OK)) as there, serving(answering(moved(there.url()))) as server:
        answer = await redirected(server, 0, ["127.0.0.1/32"])
    assert (answer.status, answer.ok, there.connections) == (307, False, 0)


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_redirects_are_followed_if_asked_for(status: int) -> None:
    """With the same method, body and signature; but secrets of one origin stay there."""
    async with (
        serving(answering(OK)) as there,
        serving(answering(moved(there.url("/new"), status))) as server,
    ):
        answer = await redirected(server, 1, ["127.0.0.1/32"])
    assert (answer.ok, answer.url) == (True, there.url("/new"))
    assert answer.address == f"127.0.0.1:{there.port}"
    (first,), (second,) = server.requests, there.requests
    assert b"s3cret" in first
    assert b"s3cret" not in second
    assert second.startswith(b"POST /new HTTP/1.1\r\n")
    lines = second.partition(b"\r\n\r\n")[0].decode().split("\r\n")[1:]
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    assert headers["host"] == f"127.0.0.1:{there.port}"
    assert verify(headers, b"x", SECRET).id == "m"


async def test_a_redirect_within_an_origin_keeps_headers() -> None:
    """By a relative URL; and redirects end where they are counted out, with the last answer."""
    answers = [moved("/b"), moved("c"), OK]
    async with serving(answering(*answers)) as server:
        answer = await redirected(server, 2, ["127.0.0.1/32"])
    assert (answer.ok, answer.url) == (True, server.url("/c"))
    assert all(b"s3cret" in each for each in server.requests)
    async with serving(answering(moved("/b"))) as server:
        answer = await redirected(server, 2, ["127.0.0.1/32"])
    assert (answer.status, len(server.requests)) == (307, 3)


async def test_a_signer_signs_what_is_sent_where_it_is_sent() -> None:
    """It is asked for each URL; its headers replace, and without an id none of ours are sent."""
    async with serving(answering(OK)) as there, serving(answering(moved(there.url()))) as server:
        guard = Guard(["http"], PORTS, ["127.0.0.1/32"])
        headers = {"X-A": "1", "Accept": "a"}
        seen: list[tuple[str, str, str | None, bytes]] = []

        async def signer(
            method: str, url: str, headers: Mapping[str, str], body: bytes
        ) -> Mapping[str, str]:
            seen.append((method, url, headers.get("X-A"), body))
            return {"Signature": f"of {url}", "accept": "b"}

        asked = WebhookRequest(
            server.url(), body=b"x", headers=headers, redirects=1, signer=signer, keep=1
        )
        async with Courier(guard) as courier:
            answer = await courier.deliver_once(asked)
            for bad in ({"a": "b\r\n"}, {"Host": "b"}):
                with pytest.raises(SignerFailed):
                    await courier.deliver_once(replace(asked, signer=lambda *_, bad=bad: bad))
    assert seen == [("POST", server.url(), "1", b"x"), ("POST", there.url(), None, b"x")]
    assert (answer.body, answer.truncated, answer.request_headers["signature"]) == (
        b"o",
        True,
        "***",
    )
    head = there.requests[0].partition(b"\r\n\r\n")[0].decode().lower()
    assert f"signature: of {there.url()}" in head
    assert "accept: b" in head
    assert "webhook-" not in head
    assert "accept: a" not in head
    assert len(there.requests) == len(server.requests) == 1


@pytest.mark.parametrize(("heard", "sent"), [(b"", 3), (b"HTTP/1.1 2", 2)])
async def test_a_kept_connection_that_is_closed_at_its_next_request(
    heard: bytes, sent: int
) -> None:
    """The request is sent once more, on a new one, if nothing of an answer came."""

    async def behave(peer: Peer) -> None:
        await peer.request()
        await peer.say(OK)
        if peer.server.connections > 1:
            return
        await peer.request()
        await peer.say(heard)

    async with serving(behave) as server:
        transport = GuardedTransport(Guard(["http"], PORTS, ["127.0.0.1/32"]))
        async with httpx2.AsyncClient(transport=transport, trust_env=False) as client:
            await client.post(server.url(), content=b"a")
            with nullcontext() if not heard else pytest.raises(httpx2.TransportError):
                await client.post(server.url(), content=b"b")
        assert len(server.requests) == sent


async def test_what_is_kept_of_a_redirect_that_fails_later() -> None:
    """Where it went last, and nothing of the answer before."""
    async with serving(closing) as there, serving(answering(moved(there.url()))) as server:
        answer = await redirected(server, 1, ["127.0.0.1/32"])
    assert (answer.failure, answer.status, answer.url) == (
        DeliveryFailure.CLOSED,
        None,
        there.url(),
    )
    assert answer.address == f"127.0.0.1:{there.port}"


@pytest.mark.parametrize(
    "to",
    [
        "http://127.0.0.1:{port}/",
        "//127.0.0.1:{port}/",
        "http://0x7f000001:{port}/",
        "http://[::ffff:127.0.0.1]:{port}/",
        "http://169.254.169.254/latest/meta-data/",
        "https://example.com/",
        "file:///etc/passwd",
        "http://user@127.0.0.2:{port}/",
        "http://[",
    ],
)
async def test_each_redirect_is_guarded(to: str) -> None:
    """A redirect into the house is a failure, and opens no connection."""
    async with serving(answering(OK), address="127.0.0.1") as house:
        location = moved(to.format(port=house.port))
        async with serving(answering(location), address="127.0.0.2") as server:
            answer = await redirected(server, 3, ["127.0.0.2/32"])
    assert (answer.failure, answer.status) == (DeliveryFailure.UNSAFE, 307)
    assert house.connections == 0


async def test_redirects_that_an_httpx_client_follows_are_guarded() -> None:
    """Whoever uses the transport alone is guarded as well, and gets the errors of httpx2."""
    async with serving(answering(OK), address="127.0.0.1") as house:
        there = answering(moved(house.url()), OK)
        async with serving(there, address="127.0.0.2") as server:
            transport = GuardedTransport(Guard(["http"], PORTS, ["127.0.0.2/32"]))
            async with httpx2.AsyncClient(transport=transport, trust_env=False) as client:
                with pytest.raises(UnsafeUrl, match="loopback"):
                    await client.post(server.url(), follow_redirects=True)
                assert (await client.post(server.url())).text == "ok"
                with pytest.raises(httpx2.ConnectError):
                    await client.get("http://127.0.0.2:1/")
    assert house.connections == 0


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    """Return a CA that only this module trusts."""
    return trustme.CA()


def server_context(authority: trustme.CA, *names: str, ends: timedelta) -> ssl.SSLContext:
    """Return what a server shows: a certificate for these names that ends so."""
    now = datetime.now(UTC)
    issued = authority.issue_cert(*names, not_before=now - timedelta(days=9), not_after=now + ends)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    issued.configure_cert(context)
    return context


def trusting(authority: trustme.CA) -> ssl.SSLContext:
    """Return what trusts that CA, and no other."""
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


async def here(host: str, port: int) -> Sequence[str]:
    """Resolve every name to this machine."""
    return ["127.0.0.1"]


HTTPS = Guard(["https"], PORTS, ["127.0.0.1/32"], here)
DAY = timedelta(days=1)


async def test_https_with_a_private_ca(authority: trustme.CA) -> None:
    """The address is connected to; SNI, Host and the certificate's name stay those of the URL."""
    context = server_context(authority, "hooks.example", ends=DAY)
    asked: list[str] = []
    context.sni_callback = lambda connection, name, _: asked.append(name)
    async with (
        serving(answering(OK), tls=context) as server,
        Courier(HTTPS, ssl_context=trusting(authority)) as courier,
    ):
        url = server.url(host="hooks.example", scheme="https")
        answer = await courier.deliver_once(request(url))
    assert answer.ok, answer.detail
    assert answer.address == f"127.0.0.1:{server.port}"
    assert asked == ["hooks.example"]
    assert f"host: hooks.example:{server.port}" in server.requests[0].decode().lower()


@pytest.mark.parametrize(
    ("name", "ends", "said"),
    [
        ("other.example", DAY, "mismatch"),
        ("hooks.example", -DAY, "expired"),
    ],
)
async def test_wrong_certificates(
    authority: trustme.CA, name: str, ends: timedelta, said: str
) -> None:
    """Another name, or expired: nothing is sent."""
    async with (
        serving(answering(OK), tls=server_context(authority, name, ends=ends)) as server,
        Courier(HTTPS, ssl_context=trusting(authority)) as courier,
    ):
        url = server.url(host="hooks.example", scheme="https")
        answer = await courier.deliver_once(request(url))
    assert answer.failure is DeliveryFailure.TLS
    assert said in (answer.detail or "")
    assert server.requests == []


async def greeting(peer: Peer) -> None:
    """Say what a mail server says."""
    await peer.say(b"220 mail.example ESMTP\r\n")
    await peer.gone()


async def mute(peer: Peer) -> None:
    """Say nothing."""
    await peer.gone()


async def test_a_ca_that_is_not_trusted_and_no_tls(authority: trustme.CA) -> None:
    """The usual context does not know the CA; a server without TLS is no https."""
    context = server_context(authority, "hooks.example", ends=DAY)
    async with (
        serving(answering(OK), tls=context) as unknown,
        serving(greeting) as plain,
        Courier(HTTPS) as courier,
    ):
        for server in (unknown, plain):
            url = server.url(host="hooks.example", scheme="https")
            answer = await courier.deliver_once(request(url))
            assert answer.failure is DeliveryFailure.TLS
            assert server.requests == []


async def test_a_server_that_says_nothing_in_tls() -> None:
    """The time to connect ends; that is no fault of a certificate."""
    async with serving(mute) as server, Courier(HTTPS) as courier:
        url = server.url(host="hooks.example", scheme="https")
        waiting = WebhookRequest(url, "m", b"x", timeouts=Timeouts(connect=0.2))
        answer = await courier.deliver_once(waiting)
        await asyncio.wait_for(server.closed.wait(), 10)
    assert answer.failure is DeliveryFailure.CONNECT_TIMEOUT


async def test_a_redirect_from_https_to_http_is_refused(authority: trustme.CA) -> None:
    """Even where both schemes are admitted."""
    guard = Guard(["https", "http"], PORTS, ["127.0.0.1/32"], here)
    context = server_context(authority, "hooks.example", ends=DAY)
    async with (
        serving(answering(OK)) as plain,
        serving(answering(moved(plain.url())), tls=context) as server,
        Courier(guard, ssl_context=trusting(authority)) as courier,
    ):
        url = server.url(host="hooks.example", scheme="https")
        answer = await courier.deliver_once(request(url, redirects=1))
    assert answer.failure is DeliveryFailure.UNSAFE
    assert "from https" in (answer.detail or "")
    assert plain.connections == 0
