"""Deliveries by HTTP/2, to a server of others' making: hypercorn."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import trustme
from hypercorn.asyncio import serve
from hypercorn.config import Config

from mutirao.webhooks import Courier, DeliveryFailure, Guard, Secret, WebhookRequest, verify
from tests.integration.webhooks.test_guarded import HTTPS, PORTS, SECRET, here, trusting

TOGETHER = 20


@dataclass
class Hooks:
    """An ASGI application that answers when enough requests are there."""

    port: int = 0
    together: asyncio.Barrier = field(default_factory=lambda: asyncio.Barrier(1))
    versions: set[str] = field(default_factory=set)
    clients: set[tuple[str, int]] = field(default_factory=set)
    received: list[tuple[dict[str, str], bytes]] = field(default_factory=list)

    async def __call__(
        self,
        scope: dict[str, Any],
        receive: Callable[[], Awaitable[dict[str, Any]]],
        send: Callable[[dict[str, Any]], Awaitable[None]],
    ) -> None:
        """Take a request, and answer it with the others."""
        if scope["type"] != "http":
            return
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        body, more = b"", True
        while more:
            part = await receive()
            body, more = body + part["body"], part["more_body"]
        self.received.append((headers, body))
        self.versions.add(scope["http_version"])
        self.clients.add(tuple(scope["client"]))
        await self.together.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"ok"})


@asynccontextmanager
async def hypercorn(authority: trustme.CA, place: Path, hooks: Hooks) -> AsyncIterator[Hooks]:
    """Serve by TLS, with HTTP/2."""
    certificate = authority.issue_cert("hooks.example")
    chain, key = place / "chain.pem", place / "key.pem"
    chain.write_bytes(b"".join(each.bytes() for each in certificate.cert_chain_pems))
    certificate.private_key_pem.write_to_path(key)
    listening = socket.create_server(("127.0.0.1", hooks.port))
    hooks.port = listening.getsockname()[1]
    config, ending = Config(), asyncio.Event()
    config.bind = [f"fd://{listening.detach()}"]
    config.certfile, config.keyfile = str(chain), str(key)
    config.graceful_timeout = 1.0
    server = asyncio.create_task(serve(hooks, config, shutdown_trigger=ending.wait))  # type: ignore[arg-type]
    try:
        yield hooks
    finally:
        ending.set()
        await server


def request(hooks: Hooks, n: int, body: bytes = b"x") -> WebhookRequest:
    """Return a signed request."""
    url = f"https://hooks.example:{hooks.port}/hook"
    return WebhookRequest(url, f"m_{n}", body, secrets=[Secret.parse(SECRET)])


async def test_many_at_once_by_one_connection(tmp_path: Path) -> None:
    """The guard connects it; each webhook arrives whole; what the server closed is left."""
    authority = trustme.CA()
    async with Courier(HTTPS, ssl_context=trusting(authority)) as courier:
        async with hypercorn(authority, tmp_path, Hooks()) as hooks:
            first = await courier.deliver_once(request(hooks, 0, b"y" * 200_000))
            assert first.ok, first.detail
            assert (first.body, first.address) == (b"ok", f"127.0.0.1:{hooks.port}")
            hooks.together = asyncio.Barrier(TOGETHER)
            answers = await asyncio.gather(
                *(courier.deliver_once(request(hooks, n)) for n in range(1, 1 + TOGETHER))
            )
            assert all(answer.ok for answer in answers)
            assert (hooks.versions, len(hooks.clients)) == ({"2"}, 1)
            ids = {verify(headers, body, SECRET).id for headers, body in hooks.received}
            assert len(ids) == 1 + TOGETHER
        async with hypercorn(authority, tmp_path, Hooks(hooks.port)) as again:
            assert (await courier.deliver_once(request(again, 0))).ok
            assert again.versions == {"2"}


async def test_an_address_that_is_not_admitted(tmp_path: Path) -> None:
    """The server would take it, and hears nothing."""
    authority = trustme.CA()
    async with hypercorn(authority, tmp_path, Hooks()) as hooks:
        guard = Guard(["https"], PORTS, [], here)
        async with Courier(guard, ssl_context=trusting(authority)) as courier:
            answer = await courier.deliver_once(request(hooks, 0))
    assert answer.failure is DeliveryFailure.UNSAFE
    assert hooks.received == []
