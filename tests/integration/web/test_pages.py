"""Each page shows what there is, to whoever may see it, and nobody a secret."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import pytest

from mutirao.web.access import Access
from mutirao.web.background import Background
from mutirao.web.dashboard_client import DashboardClient
from mutirao.web.page_call import COLUMNS
from mutirao.web.pages import PAGES
from tests.integration.web.conftest import Browser, by_header
from tests.support import dashboard
from tests.support.dashboard import SECRET, Shop

LISTED = [page.path for page in PAGES if page.listed]
WHOLE = [page.path for page in PAGES if page.listed and page.whole]


@pytest.mark.parametrize("path", LISTED)
@pytest.mark.parametrize("language", ["en", "pt-BR"])
async def test_each_page_is_shown_in_both_languages(
    browser: Browser, path: str, language: str
) -> None:
    """Whole, in the language that the browser accepts."""
    page = await browser.page(path, **{"accept-language": f"{language},xx;q=0.5"})
    assert f'<html lang="{language}"' in page
    assert page.rstrip().endswith("</html>")
    assert SECRET not in page


@pytest.mark.parametrize("state", ["dead", "running", "scheduled", "ready", "blocked", "succeeded"])
async def test_each_job_is_shown(browser: Browser, shop: Shop, state: str) -> None:
    """In every state; with its arguments and errors, and without the secrets in them."""
    page = await browser.page(f"/jobs/{shop.by_state[state]}")
    assert f"state-{state}" in page
    assert SECRET not in page


async def test_a_dead_job_tells_its_story(browser: Browser, shop: Shop) -> None:
    """All attempts, the newest first, the errors in words, and the arguments."""
    page = await browser.page(f"/jobs/{shop.dead}")
    assert page.index("Attempt 3") < page.index("Attempt 2") < page.index("Attempt 1")
    assert "smtp://•••@mail.example refused the connection" in page
    assert "&#34;password&#34;: &#34;•••&#34;" in page
    assert "ana@example.com" in page
    assert 'action="/act/redrive"' in page


async def test_until_when_a_job_is_wanted(browser: Browser, shop: Shop) -> None:
    """Of one that expires."""
    task = shop.app.tasks["send_receipt"]
    job = replace(task.using(expires=datetime(2031, 2, 3, tzinfo=UTC)).template, args="{}")
    [id] = await shop.app.store.aenqueue([job])
    assert "<dt>Expires</dt><dd><time" in await browser.page(f"/jobs/{id}")
    assert "<dt>Expires</dt>" not in await browser.page(f"/jobs/{shop.dead}")


async def test_a_result_is_shown(browser: Browser, shop: Shop) -> None:
    """As it was kept, without the secrets in it."""
    page = await browser.page(f"/jobs/{shop.reported}")
    assert "&#34;rows&#34;: 1234" in page
    assert SECRET not in page
    assert "1234" not in await browser.page(f"/jobs/{shop.reported}", "blind")


async def test_jobs_are_found_by_a_filter(browser: Browser, shop: Shop) -> None:
    """The text of the filter is in the URL, and stays in the field."""
    page = await browser.page("/jobs?q=state:dead task:send_receipt")
    assert f'href="/jobs/{shop.dead}"' in page
    assert f'href="/jobs/{shop.succeeded}"' not in page
    assert 'value="state:dead task:send_receipt"' in page


async def test_a_wrong_filter_is_explained(browser: Browser) -> None:
    """What is wrong, and where; the page is there, with the text to mend."""
    answer = await browser.get("/jobs?q=stat:dead")
    assert answer.status_code == 400
    assert "did you mean" in answer.text
    assert 'value="stat:dead"' in answer.text


async def test_pages_of_jobs_follow_each_other(browser: Browser) -> None:
    """Fifty at a time; a page begins where the one before has ended, and none is shown twice."""
    seen: list[str] = []
    path = "/jobs"
    while path:
        page = await browser.page(path)
        found = re.findall(r'name="id" value="(\d+)"', page)
        assert 0 < len(found) <= 50
        seen += found
        following = re.search(r'href="([^"]+)" rel="next"', page)
        path = following[1].replace("&amp;", "&") if following else ""
    assert len(seen) == len(set(seen)) > 50
    assert seen == sorted(seen, key=int, reverse=True)


@pytest.mark.parametrize("path", [*LISTED, "/jobs/1"])
async def test_nobody_sees_a_page_without_the_role(browser: Browser, path: str) -> None:
    """A refusal is a page that shows nothing."""
    answer = await browser.get(path, "none")
    assert answer.status_code == 403
    assert "<nav" not in answer.text


@pytest.mark.parametrize("path", WHOLE)
async def test_who_sees_some_jobs_sees_no_page_about_all(browser: Browser, path: str) -> None:
    """Such pages are refused, and no page has a link to them."""
    assert (await browser.get(path, "mail")).status_code == 403
    assert f'href="{path}"' not in await browser.page("/jobs", "mail")


async def test_who_sees_some_jobs_sees_no_other(browser: Browser, shop: Shop) -> None:
    """Neither in the list, whatever the filter, nor by its id."""
    page = await browser.page("/jobs?q=state:succeeded", "mail")
    assert "send_receipt" in page
    assert "resize_photo" not in page
    assert (await browser.get(f"/jobs/{shop.dead}", "mail")).status_code == 200
    assert (await browser.get(f"/jobs/{shop.succeeded}", "mail")).status_code == 404
    assert (await browser.get("/", "mail")).headers["location"] == "/jobs"


async def test_contents_are_hidden_from_some(browser: Browser, shop: Shop) -> None:
    """Arguments, results and the texts of errors; the classes of errors stay."""
    for path in ("/jobs", f"/jobs/{shop.dead}", "/errors", "/jobs?q=task:monthly_report"):
        page = await browser.page(path, "blind")
        assert "ana@example.com" not in page
        assert "refused the connection" not in page
    assert "ConnectionError" in await browser.page(f"/jobs/{shop.dead}", "blind")


async def test_unknown_things_are_pages(browser: Browser) -> None:
    """An id of no job, one that is none, and a path of no page."""
    for path, status in (("/jobs/999999", 404), ("/jobs/x", 400), ("/nowhere", 404),
                         (f"/jobs/{10**30}", 400), ("/jobs?after=!!", 400)):  # fmt: skip
        answer = await browser.get(path)
        assert answer.status_code == status, path
        assert "Traceback" not in answer.text


async def test_it_works_under_a_prefix(shop: Shop) -> None:
    """Mounted at a path, all links and forms stay below it."""
    from starlette.applications import Starlette
    from starlette.routing import Mount

    site = shop.app.web(access=by_header)
    outer = Browser(Starlette(routes=[Mount("/inner/jobs", site)]))  # type: ignore[arg-type]
    for path in ("/inner/jobs/", f"/inner/jobs/jobs/{shop.dead}", "/inner/jobs/jobs"):
        page = await outer.page(path)
        links = re.findall(r'(?:href|src|action|formaction)="([^"#]*)"', page)
        assert links
        assert all(link.startswith("/inner/jobs/") for link in links)
    done = await outer.post("/inner/jobs/act/redrive", id=shop.dead, back="/inner/jobs/jobs")
    assert (done.status_code, done.headers["location"]) == (303, "/inner/jobs/jobs")
    await site.client.aclose()


async def test_it_is_closed_with_its_application(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What runs behind the pages is stopped, then the connections are closed; also by itself."""
    closed: list[str] = []
    for kind in (Background, DashboardClient):
        close: Callable[[Any], Awaitable[None]] = kind.aclose

        async def closing(self: Any, close: Any = close, kind: type = kind) -> None:
            closed.append(kind.__name__)
            await close(self)

        monkeypatch.setattr(kind, "aclose", closing)
    site = shop.app.web(access=lambda _: Access.read())
    await shop.app.aclose()
    assert closed == ["Background"]  # nothing was opened
    await Browser(site).page("/jobs")
    await shop.app.aclose()
    assert closed[1:] == ["Background", "DashboardClient"]
    await site.aclose()
    assert closed[3:] == ["Background", "DashboardClient"]


async def test_how_pages_are_liked_is_kept(browser: Browser) -> None:
    """Language, theme and times, by a form; what is unknown is not kept."""
    await browser.post("/preferences", language="pt-BR", theme="dark", times="absolute")
    page = await browser.page("/jobs")
    assert '<html lang="pt-BR" data-theme="dark">' in page
    assert " UTC</time>" in page
    await browser.post("/preferences", language="xx", theme="neon")
    assert '<html lang="pt-BR" data-theme="dark">' in await browser.page("/jobs")


async def test_columns_are_chosen(browser: Browser) -> None:
    """By a form, kept in the browser; what is unknown is none."""
    usual = re.findall(r'<th scope="col"[^>]*>([A-Z]\w+)</th>', await browser.page("/jobs"))
    assert usual == ["Job", "State", "Queue", "Attempt", "When"]
    await browser.post("/preferences", columns=["", "tenant", "state", "<b>"])
    page = await browser.page("/jobs")
    assert re.findall(r'<th scope="col"[^>]*>([A-Z]\w+)</th>', page) == ["Job", "State", "Tenant"]
    assert "acme" in page
    await browser.post("/preferences", columns="")
    page = await browser.page("/jobs")
    assert re.findall(r'<th scope="col"[^>]*>([A-Z]\w+)</th>', page) == ["Job"]
    await browser.post("/preferences", columns=["", *COLUMNS])
    page = await browser.page("/jobs?q=state:scheduled,succeeded,dead,blocked,running")
    assert SECRET not in page


async def test_a_filter_is_suggested(browser: Browser) -> None:
    """What may stand where the cursor is, in the viewer's language; names to who sees all jobs."""

    async def suggested(text: str, role: str = "admin", **headers: str) -> dict[str, str]:
        path = f"/suggestions?q={quote(text)}&at={len(text)}"
        found = (await browser.get(path, role, **headers)).json()
        return {each["text"]: each["help"] for each in found}

    assert await suggested("qu") == {"queue:": "the queue"}
    assert await suggested("qu", **{"accept-language": "pt"}) == {"queue:": "a fila"}
    assert set(await suggested("state:dead queue:")) >= {"mail", "media"}
    assert "send_receipt" in await suggested("task:send")
    assert "media" not in await suggested("state:dead queue:", "mail")
    assert "dead" in await suggested("state:d", "mail")
    assert not {"key:", "arg."} & {*await suggested("", "blind"), *await suggested("ke", "blind")}
    assert (await browser.get("/suggestions?q=x&at=-1")).status_code == 400
    assert (await browser.get("/suggestions?q=x", "none")).status_code == 403


async def test_a_graph_is_drawn(browser: Browser, shop: Shop) -> None:
    """A box for each step, a line for what it comes after; the list stays."""
    page = await browser.page(f"/jobs/{shop.blocked}")
    drawing = re.search(r"<svg width.*?</svg>", page, re.S)
    assert drawing is not None
    assert drawing[0].count("<rect") == 2
    assert drawing[0].count('class="edge"') == 1
    assert "box-blocked here" in drawing[0]


async def test_without_an_application_it_says_so(shop: Shop) -> None:
    """All pages are there; what needs tasks tells that they are not known."""
    from mutirao import Mutirao

    app = Mutirao(str(shop.app.url))
    site = app.web(access=by_header)
    bare = Browser(site)
    for path in LISTED:
        await bare.page(path)
    assert "without an application" in await bare.page(f"/jobs/{shop.dead}")
    await site.client.aclose()
    await app.aclose()


async def test_tables_that_are_missing_are_told(sqlite_url: str) -> None:
    """With the command that makes them; nothing is made by looking."""
    from mutirao import Mutirao

    app = Mutirao(sqlite_url)
    site = app.web(access=by_header)
    answer = await Browser(site).get("/")
    assert answer.status_code == 503
    assert "mutirao migrate" in answer.text
    await site.client.aclose()
    await app.aclose()


async def test_each_page_is_shown_on_postgresql(migrated_postgresql_url: str) -> None:
    """What is read there is shown alike."""
    shop = await dashboard.filled(migrated_postgresql_url)
    site = shop.app.web(access=by_header)
    pages = Browser(site)
    for path in (*LISTED, *(f"/jobs/{id}" for id in shop.by_state.values())):
        assert SECRET not in await pages.page(path)
    done = await pages.post("/act/redrive", id=shop.dead)
    assert done.status_code == 303
    await site.client.aclose()
    await shop.app.aclose()
