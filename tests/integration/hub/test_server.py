"""What a hub does about clients that do not keep to its protocol, and about wrong set-ups."""

from __future__ import annotations

import asyncio
import socket
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mutirao.errors import ConfigurationError, StoreUnavailable
from mutirao.hub import server
from mutirao.hub.address import parse_address
from mutirao.hub.protocol import HelloLine, Serves, WakeLine, line_of
from mutirao.hub.service import HubSettings, serving
from mutirao.model.jobs.lanes import Wake
from mutirao.notifiers.hub import HubNotifier
from mutirao.notifiers.hub_client import HubClient
from mutirao_conformance.notifier import listening
from tests.support.hubs import hub
from tests.support.waiting import soon, until

HELLO = line_of(HelloLine("shop", "secret", Serves()))


@asynccontextmanager
async def said(place: str, *lines: bytes) -> AsyncIterator[asyncio.StreamReader]:
    """Say something to a hub, and read its answers."""
    address = parse_address(place)
    reader, writer = await asyncio.open_connection(address.host, address.port)
    try:
        for line in lines:
            writer.write(line)
        yield reader
    finally:
        writer.transport.abort()


async def dropped(reader: asyncio.StreamReader) -> str:
    """Wait until the hub has closed the connection; return what it said."""
    try:
        return (await soon(reader.read())).decode()
    except ConnectionError:  # it had more to read than it read
        return ""


def complaints(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return why clients were dropped, as it was logged."""
    messages = [record.getMessage() for record in caplog.records]
    return [each.partition(": ")[2] for each in messages if each.startswith("dropped a client")]


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ([line_of(HelloLine("shop"))], "no token was given"),
        ([line_of(HelloLine("shop", "secreT"))], "the token is wrong"),
        ([b"GET / HTTP/1.1\r\n\r\n"], "a line is none of the protocol"),
        ([b"\x00\xff\x80" * 100 + b"\n"], "a line is none of the protocol"),
        ([b"[" * 60_000 + b"\n"], "a line is none of the protocol"),
        ([b'{"op":"wake","jobs":0}\n'], "a line is none of the protocol"),
        ([line_of(WakeLine())], "it did not say hello first"),
        ([HELLO, HELLO], "it said hello twice"),
        ([HELLO, b'{"op":"idle"}\n'], "a line is none of the protocol"),
        ([HELLO, b"x" * 10_000_000], "a line is longer than 65536 bytes"),
        ([HELLO, b"x" * 10_000_000 + b"\n"], "a line is longer than 65536 bytes"),
    ],
)
async def test_whoever_does_not_keep_to_it_is_dropped(
    lines: list[bytes], why: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Logged once, though it comes again, without a token; others are unharmed."""
    async with hub(token="secret") as place:
        good = HubNotifier(parse_address(place).with_token("secret"), "shop", Serves())
        async with listening(good) as wakes:
            for _ in range(2):
                async with said(place, *lines) as reader:
                    answers = await dropped(reader)
                    assert not answers or why in answers
            async with said(place, HELLO, line_of(WakeLine("mail"))):
                assert await soon(anext(wakes)) == Wake("mail")
    assert complaints(caplog) == [why]
    assert "secre" not in caplog.text


@pytest.mark.parametrize("lines", [[], [b'{"op":"hel'], [HELLO, b'{"op":"wa']])
async def test_silence(
    lines: list[bytes], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing, or half a line and nothing more: dropped after a while."""
    monkeypatch.setattr(server, "GREETING", 0.2)
    monkeypatch.setattr(server, "SILENCE", 0.4)
    async with hub(token="secret") as place, said(place, *lines) as reader:
        await dropped(reader)
    [why] = complaints(caplog)
    assert why.startswith("it said nothing for" if HELLO in lines else "it did not say hello")


async def test_who_does_not_read(caplog: pytest.LogCaptureFixture) -> None:
    """Is dropped once some bytes are unread; who reads is told everything."""
    burst = line_of(WakeLine("q" * 900)) * 1_000
    async with hub(token="secret") as place:
        address = parse_address(place)
        with socket.create_connection((address.host, address.port)) as deaf:
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            deaf.sendall(HELLO)
            async with said(place, HELLO) as reader:

                async def read() -> None:
                    while await reader.read(1 << 20):
                        pass

                async def flooded() -> bool:
                    async with said(place, HELLO, burst) as entered:
                        await entered.readline()
                    return bool(complaints(caplog))

                reading = asyncio.create_task(read())
                await until(flooded)
                assert not reading.done()
                reading.cancel()
    assert complaints(caplog) == ["it does not read what it is sent"]


async def test_there_may_be_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those who come later are refused, and the others stay."""
    monkeypatch.setattr("mutirao.hub.service._most_clients", lambda: 2)
    async with hub(token="secret") as place:
        async with said(place, HELLO) as one, said(place, HELLO) as two:
            assert b"looks" in await soon(one.readline())
            assert b"looks" in await soon(two.readline())
            async with said(place, HELLO) as three:
                assert "2 clients are connected already" in await dropped(three)

        async def let_in() -> bool:
            async with said(place, HELLO) as again:
                return b"looks" in await again.readline()

        await until(let_in)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"bind": "0.0.0.0:0"}, "without a token"),
        ({"bind": "[::]:0"}, "without a token"),
        ({"bind": "8770"}, "write 127.0.0.1:8770"),
        ({"bind": "127.0.0.1:99999"}, "write 127.0.0.1:8770"),
        ({"bind": "no.such.host.invalid:1"}, "cannot listen"),
        ({"bind": "127.0.0.1:0", "key": "/nowhere"}, "without a certificate"),
        ({"bind": "127.0.0.1:0", "certificate": "/nowhere"}, "cannot be used"),
        ({"bind": "unix:///nowhere/hub.sock"}, "cannot listen"),
    ],
)
async def test_a_wrong_set_up_is_refused(settings: dict[str, Any], why: str) -> None:
    """In a sentence that says what to do."""
    with pytest.raises(ConfigurationError, match=why):
        async with serving(HubSettings(**settings)):
            pass


async def test_other_machines_need_a_token() -> None:
    """With one it may be bound to anything."""
    async with serving(HubSettings(bind="0.0.0.0:0", token="secret")) as place:
        assert place.startswith("tcp://0.0.0.0:")


async def test_a_unix_socket(tmp_path: Path) -> None:
    """Only its owner may connect without a token; a dead hub's is replaced, a living one's not."""
    path = tmp_path / "hub.sock"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    async with hub(bind=f"unix://{path}") as place:
        assert path.stat().st_mode & 0o777 == 0o600
        async with listening(HubNotifier(parse_address(place), "shop")) as wakes:
            client = HubClient(parse_address(place), "shop")
            client.send(WakeLine("mail"))
            assert await soon(anext(wakes)) == Wake("mail")
            await asyncio.to_thread(client.close)
        with pytest.raises(ConfigurationError, match="another hub listens"):
            async with hub(bind=f"unix://{path}"):
                pass
    path.unlink(missing_ok=True)
    path.touch()
    with pytest.raises(ConfigurationError, match="no socket"):
        async with hub(bind=f"unix://{path}"):
            pass


async def test_tls(tmp_path: Path) -> None:
    """Who trusts the certificate is woken and tells; others refuse the hub."""
    certificate, key = tmp_path / "hub.pem", tmp_path / "hub.key"
    made = "-newkey rsa:2048 -nodes -days 2 -subj /CN=hub -addext subjectAltName=DNS:localhost"
    subprocess.run(  # noqa: ASYNC221 (half a second, and nothing else is at work)
        ["openssl", "req", "-x509", *made.split(), "-keyout", key, "-out", certificate],
        check=True,
        capture_output=True,
    )
    async with hub(token="secret", certificate=str(certificate), key=str(key)) as place:
        port = place.rpartition(":")[2]
        trusted = parse_address(f"tls://:secret@localhost:{port}?ca={certificate}")
        async with listening(HubNotifier(trusted, "shop")) as wakes:
            client = HubClient(trusted, "shop")
            client.send(WakeLine("mail"))
            assert await soon(anext(wakes)) == Wake("mail")
            await asyncio.to_thread(client.close)
        with pytest.raises(StoreUnavailable, match="certificate verify failed"):
            await soon(
                anext(HubNotifier(parse_address(f"tls://localhost:{port}"), "shop").listen())
            )


async def test_a_worker_with_a_wrong_token_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """So that its log says what is wrong."""
    async with hub(token="secret") as place:
        with pytest.raises(StoreUnavailable, match="refuses us: the token is wrong"):
            await soon(
                anext(HubNotifier(parse_address(place).with_token("other"), "shop").listen())
            )
        client = HubClient(parse_address(place), "shop")
        client.send(WakeLine("mail"))
        await until(lambda: "no token was given" in caplog.text)
        await asyncio.to_thread(client.close)
    assert caplog.text.count("is away, workers poll: it refuses us") == 1
