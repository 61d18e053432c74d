"""A hub that says that it looks at the database, and clients that have gone."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from mutirao.hub.address import parse_address
from mutirao.hub.protocol import HelloLine, LooksLine, Serves, WakeLine, asked, line_of
from mutirao.hub.server import Client, Hub
from mutirao.notifiers.hub import HubNotifier
from tests.support.waiting import soon, until


def belief(notifier: HubNotifier) -> tuple[bool, bool]:
    """Return whether its hub says that it looks, and whether that is believed."""
    return notifier.says_it_looks, notifier.complete


async def test_a_hub_is_believed_once_it_has_told_of_jobs() -> None:
    """What it says, and that one shall look again, shows nothing: workers poll until then."""
    heard: asyncio.Queue[asyncio.StreamWriter] = asyncio.Queue()

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert isinstance(asked((await reader.readline()).strip()), HelloLine)
        writer.write(line_of(LooksLine(0.2)))
        heard.put_nowait(writer)

    server = await asyncio.start_server(greet, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    notifier = HubNotifier(parse_address(f"tcp://127.0.0.1:{port}"), "shop", Serves())
    async with aclosing(notifier.listen()) as wakes:
        await soon(anext(wakes))
        writer = await soon(heard.get())
        assert belief(notifier) == (True, False)
        writer.write(line_of(WakeLine()))
        await soon(anext(wakes))
        assert belief(notifier) == (True, False)
        writer.write(line_of(WakeLine("mail", 0)))
        await soon(anext(wakes))
        assert belief(notifier) == (True, True)
    writer.close()
    server.close()


async def test_a_client_that_has_gone_is_told_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """asyncio logs each line that a connection loses which the other side has reset."""
    hub, clients = Hub("", 10), list[Client]()

    def made() -> Client:
        clients.append(Client(hub))
        return clients[-1]

    loop = asyncio.get_running_loop()
    server = await loop.create_server(made, "127.0.0.1", 0)
    _, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    await until(lambda: clients and clients[0]._transport is not None)
    transport = clients[0]._transport
    assert transport is not None
    transport.abort()
    for _ in range(20):
        clients[0].tell(line_of(WakeLine("mail", 0)))
    assert "socket.send() raised exception" not in caplog.text
    writer.close()
    server.close()
