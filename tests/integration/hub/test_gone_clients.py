"""Clients of a hub that have gone, before it is told so."""

from __future__ import annotations

import asyncio

import pytest

from mutirao.hub.protocol import WakeLine, line_of
from mutirao.hub.server import Client, Hub
from tests.support.waiting import until


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
        clients[0].send(line_of(WakeLine("mail", 0)))
    assert "socket.send() raised exception" not in caplog.text
    writer.close()
    server.close()
