"""The dashboard of a shop, asked without a network: as whoever a header says."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import httpx2
import pytest
from starlette.requests import Request

from mutirao.web import Access
from mutirao.web.site import Site
from tests.support import dashboard
from tests.support.dashboard import Shop

SAME = {"sec-fetch-site": "same-origin"}
ROLES = {
    "none": Access.none(),
    "read": Access.read("ana"),
    "act": Access.act("bia"),
    "admin": Access.admin("rui"),
    "mail": Access.act("leo", only="queue:mail"),
    "blind": Access.act("eva", contents=False),
    "secretive": Access.read("ivo", only=f"arg.password:{dashboard.SECRET}", contents=False),
}


def by_header(request: Request) -> Access:
    """Let in whoever the header says; an administrator without it."""
    return ROLES[request.headers.get("x-role", "admin")]


class Browser:
    """Asks the pages of a dashboard, and sends its forms."""

    def __init__(self, site: Site, base: str = "http://testserver") -> None:
        self.site = site
        transport = httpx2.ASGITransport(app=site)
        self.client = httpx2.AsyncClient(transport=transport, base_url=base)

    async def get(self, path: str, role: str = "admin", **headers: str) -> httpx2.Response:
        """Ask for a page."""
        return await self.client.get(path, headers={"x-role": role, **headers})

    async def page(self, path: str, role: str = "admin", **headers: str) -> str:
        """Ask for a page that there is; return it."""
        answer = await self.get(path, role, **headers)
        assert answer.status_code == 200, answer.text
        return answer.text

    async def post(
        self, path: str, role: str = "admin", headers: dict[str, str] | None = None, **form: object
    ) -> httpx2.Response:
        """Send a form, as a page of ours does."""
        sent = {"x-role": role, **(SAME if headers is None else headers)}
        return await self.client.post(path, data={"back": "/jobs", **form}, headers=sent)


@pytest.fixture(scope="session")
def shop_file(migrated_file: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Shop]:
    """A file with the shop, to be copied, and what is in it. Do not open it."""
    path = tmp_path_factory.mktemp("shop") / "shop.db"
    shutil.copy(migrated_file, path)

    async def fill() -> Shop:
        shop = await dashboard.filled(f"sqlite:///{path}")
        await shop.app.aclose()
        return shop

    return path, asyncio.run(fill())


@pytest.fixture
async def shop(shop_file: tuple[Path, Shop], tmp_path: Path) -> AsyncIterator[Shop]:
    """The shop, in a file of the test's own."""
    path, its = shop_file
    copy = shutil.copy(path, tmp_path / "shop.db")
    app = dashboard.application(f"sqlite:///{copy}")
    await dashboard.bury(app, "ana", "rui")
    yield replace(its, app=app)
    await app.aclose()


@pytest.fixture
async def browser(shop: Shop) -> AsyncIterator[Browser]:
    """A browser of the shop's dashboard."""
    site = shop.app.web(access=by_header)
    yield Browser(site)
    await site.background.aclose()
    await site.client.aclose()
