"""Several databases in one dashboard: one is chosen, and pages, forms and API are of that one."""

from __future__ import annotations

import re
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import Request

from mutirao import Mutirao
from mutirao.errors import ConfigurationError
from mutirao.web import Access
from mutirao.web.several.databases_site import DatabasesSite
from mutirao.web.several.listed_databases import FRESH_FOR, ListedDatabases, name_of
from tests.integration.web.conftest import Browser, by_header
from tests.support import dashboard
from tests.support.dashboard import Shop


class Tenants:
    """An application that lists the databases of its tenants, each a copy of the shop."""

    def __init__(self, folder: Path, shop: Shop) -> None:
        self.urls = [f"sqlite:///{folder}/{name}.db" for name in ("north", "south")]
        self.app = dashboard.application(self.urls[0])
        self.shop = shop
        self.app.databases(lambda: self.urls)
        self.asked: list[str] = []

    def access(self, request: Request) -> Access:
        """Note which database it is about."""
        self.asked.append(getattr(request.state, "database", ""))
        return by_header(request)

    def path(self, number: int, rest: str = "") -> str:
        """Return a path of a database's dashboard."""
        return f"/databases/{name_of(self.urls[number])}/{rest}"


@pytest.fixture
async def tenants(shop_file: tuple[Path, Shop], tmp_path: Path) -> AsyncIterator[Tenants]:
    """Two of them."""
    path, shop = shop_file
    its = Tenants(tmp_path, shop)
    for url in its.urls:
        shutil.copy(path, url.removeprefix("sqlite:///"))
    yield its
    await its.app.aclose()


@pytest.fixture
def many(tenants: Tenants) -> Browser:
    """A browser of their dashboard."""
    return Browser(tenants.app.web(access=tenants.access))


async def test_one_is_chosen(many: Browser, tenants: Tenants) -> None:
    """Its pages link to one another, and back; a form acts there, and nowhere else."""
    page = await many.page("/")
    assert re.findall(r'href="(/databases/[^"]+)"', page) == [tenants.path(0), tenants.path(1)]
    jobs = await many.page(tenants.path(1, "jobs?q=state:dead"))
    assert f'href="{tenants.path(1, f"jobs/{tenants.shop.dead}")}"' in jobs
    assert 'href="/"' in jobs  # all databases
    done = await many.post(
        tenants.path(1, "act/redrive"), id=tenants.shop.dead, back=tenants.path(1, "jobs")
    )
    assert (done.status_code, done.headers["location"]) == (303, tenants.path(1, "jobs"))
    counts = []
    for url in tenants.urls:
        app = Mutirao(url)
        found = await app.reading.ahow_many("state:ready task:send_receipt")
        counts.append(found.jobs)
        await app.aclose()
    assert counts[1] == counts[0] + 1
    assert {*tenants.asked} == {"", tenants.urls[1]}  # `access` is told which it is


async def test_a_job_is_enqueued_in_the_chosen_one(many: Browser, tenants: Tenants) -> None:
    """By the form of its task; the application's own database gets none."""
    form: dict[str, Any] = {
        "task": "sync_stock",
        "arg.warehouse": "Belém",
        "back": tenants.path(1, "enqueue"),
    }
    made = await many.post(tenants.path(1, "act/enqueue"), **form)
    assert made.status_code == 303, made.text
    found = [await _jobs(many, tenants.path(n)) for n in (0, 1)]
    assert [any("Belém" in str(each["args"]) for each in some) for some in found] == [False, True]


async def test_the_api_is_of_the_chosen_one(many: Browser, tenants: Tenants) -> None:
    """They are listed, without passwords, each with its API; there is no other one beside."""
    listed = (await many.get("/api/v1/databases")).json()["databases"]
    assert [each["url"] for each in listed] == tenants.urls
    assert [each["api"] for each in listed] == [tenants.path(n, "api/v1") for n in (0, 1)]
    done = await many.client.post(f"{listed[1]['api']}/queues/mail/pause", json={})
    assert done.status_code == 200, done.text
    paused = [(await many.get(f"{each['api']}/queues")).json()["queues"] for each in listed]
    assert [_paused(each) for each in paused] == [{"media"}, {"media", "mail"}]
    assert (await many.get("/api/v1/jobs")).status_code == 404
    assert (await many.get("/metrics")).status_code == 404
    assert "/databases" in (await many.get("/api/v1/openapi.json")).json()["paths"]
    for path in ("/livez", "/readyz", tenants.path(1, "readyz")):
        assert (await many.get(path)).status_code == 200


async def test_roles_hold(many: Browser, tenants: Tenants) -> None:
    """As with one database: in the list, on pages, for commands and the API."""
    for path in ("/", tenants.path(0), "/api/v1/databases", tenants.path(0, "api/v1/jobs")):
        assert (await many.get(path, "none")).status_code == 403, path
    refused = await many.post(tenants.path(0, "act/pause-queue"), "act", queue="mail")
    assert refused.status_code == 403
    refused = await many.post(tenants.path(0, "act/redrive"), headers={}, id=1)
    assert refused.status_code == 403  # from elsewhere


async def test_the_list_changes(many: Browser, tenants: Tenants) -> None:
    """What is listed no more is there no more; what nobody lists never was."""
    site = many.site
    assert isinstance(site, DatabasesSite)
    assert (await many.get(tenants.path(1))).status_code == 200
    south = tenants.path(1)
    tenants.urls = tenants.urls[:1]
    site.listed = ListedDatabases(tenants.app.alisted_databases)
    for path in (south, "/databases/none/", "/databases/../jobs", "/databases//"):
        assert (await many.get(path)).status_code == 404, path
    moved = await many.get(tenants.path(0)[:-1])
    assert moved.headers["location"] == tenants.path(0)


async def test_the_list_fails() -> None:
    """Those that are known stay, and the function is asked again after its time."""
    now = [0.0]
    answers: list[dict[str, str] | OSError] = [
        {"sqlite:///a.db": "sqlite:///a.db"}, OSError("away"), {},
    ]  # fmt: skip

    async def ask() -> dict[str, str]:
        answer = answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return answer

    listed = ListedDatabases(ask, lambda: now[0])
    seen = []
    for _ in range(3):
        seen.append([*(await listed.get())])
        await listed.get()  # within its time it is not asked
        now[0] += FRESH_FOR
    assert seen == [["a-db-" + name_of("sqlite:///a.db")[-8:]]] * 2 + [[]]
    fails = ListedDatabases(_fail)
    with pytest.raises(OSError, match="away"):
        await fails.get()


async def test_an_error_of_the_list_is_a_page(tenants: Tenants) -> None:
    """It says nothing of the error to whoever asks."""

    def away() -> list[str]:
        raise OSError("hunter2")

    tenants.app.databases(away)
    browser = Browser(tenants.app.web(access=tenants.access))
    for path in ("/", tenants.path(0), "/readyz"):
        answer = await browser.get(path)
        assert answer.status_code in (500, 503), path
        assert "hunter2" not in answer.text


async def test_a_name_does_not_tell_the_password(tenants: Tenants) -> None:
    """And is the same with another one; WSGI says that it cannot."""
    assert name_of("postgresql://u:***@h/Shop%20A?x=1").startswith("shop-20a-")
    assert name_of("sqlite://").startswith("database-")
    site = tenants.app.web(access=tenants.access)
    with pytest.raises(ConfigurationError, match="lists its databases"):
        site.wsgi()


async def test_few_are_open_at_once(
    many: Browser, tenants: Tenants, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that nobody has looked at for the longest time is closed, and opens again."""
    monkeypatch.setattr("mutirao.web.several.databases_site.MOST_OPEN", 1)
    monkeypatch.setattr("mutirao.web.several.databases_site.IDLE", -1.0)
    for number in (0, 1, 0):
        assert (await many.get(tenants.path(number, "jobs"))).status_code == 200
        assert len(many.site._opened) == 1  # type: ignore[attr-defined]


async def _fail() -> dict[str, str]:
    raise OSError("away")


async def _jobs(browser: Browser, path: str) -> list[dict[str, object]]:
    answer = await browser.get(f"{path}api/v1/jobs?filter=state:ready,running")
    jobs: list[dict[str, object]] = answer.json()["jobs"]
    return jobs


def _paused(queues: list[dict[str, object]]) -> set[object]:
    return {each["name"] for each in queues if each["paused"]}


def test_what_is_declared_is_of_all_databases(tmp_path: Path) -> None:
    """Also after the application was opened with another database."""
    app = Mutirao(f"sqlite:///{tmp_path}/one.db")
    other = app.elsewhere(f"sqlite:///{tmp_path}/other.db")
    assert (other.schedules, other.subscriptions) == (app.schedules, app.subscriptions)
    app.close()
    other.close()
