"""The dashboard of a small application, asked by programs with tokens of each scope."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx2
import pytest

from mutirao import Mutirao
from mutirao.web.credentials import Credentials, Door
from mutirao.web.scoped_tokens import ScopedTokens
from mutirao.web.site import Settings, Site

TOKENS = {scope: f"{scope}-token-of-a-test" for scope in ("read", "act", "admin", "some")}
FILE = f"""
read  looks   {TOKENS["read"]}
act   does    {TOKENS["act"]}
admin governs {TOKENS["admin"]}
act   some    {TOKENS["some"]}  queue:mail
"""
Ask = Callable[..., Any]


async def at_once(seconds: float) -> None:
    """Wait no time at all after a failure."""


def tokens() -> ScopedTokens:
    """Return the tokens of the file."""
    return ScopedTokens.parse(FILE)


@pytest.fixture
async def shop(lite_url: str) -> AsyncIterator[Mutirao]:
    """An application with a task in the queue `mail`, and one in the queue `default`."""
    app = Mutirao(lite_url)

    @app.task(queue="mail")
    def send(order_id: int, password: str = "") -> None: ...

    @app.task
    def tick() -> None: ...

    await app.schedules.aput("night/ly", tick.job(), every=3_600)
    yield app
    await app.aclose()


@pytest.fixture
async def site(shop: Mutirao) -> AsyncIterator[Site]:
    """Its dashboard."""
    made = Site(shop, Settings(access=Door(Credentials(tokens=tokens()), sleep=at_once)))
    yield made
    await made.client.aclose()


@pytest.fixture
async def nobody(site: Site) -> AsyncIterator[httpx2.AsyncClient]:
    """A client without a token."""
    transport = httpx2.ASGITransport(app=site)
    async with httpx2.AsyncClient(transport=transport, base_url="http://jobs/api/v1") as client:
        yield client


@pytest.fixture
def ask(nobody: httpx2.AsyncClient) -> Ask:
    """Return what asks as a scope: `await ask("read", "GET", "/jobs")`."""

    async def asking(scope: str, method: str, path: str, **more: Any) -> httpx2.Response:
        headers = {"authorization": f"Bearer {TOKENS[scope]}", **more.pop("headers", {})}
        return await nobody.request(method, path, headers=headers, **more)

    return asking


@pytest.fixture
def send(shop: Mutirao) -> Any:
    """The task in the queue `mail`."""
    return shop.task_named("send")


@pytest.fixture
def tick(shop: Mutirao) -> Any:
    """The task in the queue `default`."""
    return shop.task_named("tick")
