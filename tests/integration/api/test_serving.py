"""The API where it stands: served alone with a file of tokens, or mounted below a path."""

from __future__ import annotations

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from mutirao import Mutirao
from mutirao.errors import ConfigurationError
from mutirao.web.access import Access
from mutirao.web.serving import ServingOptions, made
from tests.integration.api.conftest import FILE, TOKENS


async def test_tokens_let_programs_in(shop: Mutirao) -> None:
    """Where others can connect, and on this machine: nobody is let in without one then."""
    for bind in ("0.0.0.0:80", "127.0.0.1:8765"):
        site, _, _ = made(shop, ServingOptions(bind=bind, tokens=FILE))
        transport = httpx2.ASGITransport(app=site)
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            header = {"authorization": f"Bearer {TOKENS['read']}"}
            assert (await client.get("/api/v1/jobs", headers=header)).status_code == 200
            assert (await client.get("/api/v1/jobs")).status_code == 401
            assert (await client.get("/jobs", headers=header)).status_code == 200  # a page
        await site.client.aclose()


@pytest.mark.parametrize(
    ("text", "why"),
    [("", "there are no tokens"), ("read grafana short\n", "line 1: the token has 5")],
)
def test_a_file_that_lets_nobody_in_is_refused(shop: Mutirao, text: str, why: str) -> None:
    """It says what is wrong, before it listens."""
    with pytest.raises(ConfigurationError, match=why):
        made(shop, ServingOptions(tokens=text))


async def test_it_works_below_a_path(shop: Mutirao) -> None:
    """Links begin where the host does."""
    site = shop.web(access=lambda _: Access.admin("ana"))
    transport = httpx2.ASGITransport(app=Starlette(routes=[Mount("/jobs", site)]))
    async with httpx2.AsyncClient(transport=transport, base_url="http://shop/jobs") as client:
        made = await client.post("/api/v1/jobs", json={"task": "tick"})
        assert made.headers["location"] == "/jobs/api/v1/jobs/1"
        assert (await client.get("http://shop" + made.headers["location"])).status_code == 200
        document = (await client.get("/api/v1/openapi.json")).json()
        assert document["servers"] == [{"url": "/jobs/api/v1"}]
        assert (await client.get("/readyz")).json() == {"status": "ok"}
    await site.client.aclose()
