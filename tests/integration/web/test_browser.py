"""The pages in a real browser: both themes, wide and narrow, by keyboard, live, without scripts.

With MUTIRAO_IMAGES=docs/images the same tests write the pictures of the documents (`make images`).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from mutirao import Mutirao
from mutirao.model.jobs.job import NewJob
from tests.support.browsing import LONG, chromium, dashboard_of
from tests.support.dashboard import Shop

WIDE, NARROW = {"width": 1440, "height": 900}, {"width": 320, "height": 640}
IMAGES = os.environ.get("MUTIRAO_IMAGES")
PICTURED = {
    ("overview", "light"), ("overview", "dark"), ("jobs", "light"), ("job", "light"),
    ("job", "dark"),
}  # fmt: skip

PAGES = {
    "overview": "/", "jobs": "/jobs", "errors": "/errors", "queues": "/queues",
    "schedules": "/schedules", "workers": "/workers", "limits": "/limits", "topics": "/topics",
    "endpoints": "/endpoints", "doctor": "/doctor", "audit": "/audit", "job": "/jobs/{dead}",
    "waiting": "/jobs/{blocked}", "unfit": "/jobs?q=stat:dead", "missing": "/nowhere",
    "everything": "/everything?q=state:dead", "hosts": "/hosts", "brokers": "/brokers",
    "enqueue": "/enqueue?from={dead}", "tasks": "/enqueue",
}  # fmt: skip


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """The browser, of all tests here."""
    with chromium() as opened:
        yield opened


@pytest.fixture(scope="module")
def file(shop_file: tuple[Path, Shop], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The database of the dashboard that is served."""
    return Path(shutil.copy(shop_file[0], tmp_path_factory.mktemp("served") / "shop.db"))


@pytest.fixture(scope="module")
def ids(shop_file: tuple[Path, Shop]) -> dict[str, int]:
    """Jobs by their states."""
    return shop_file[1].by_state


@pytest.fixture(scope="module")
def url(file: Path) -> Iterator[str]:
    """The dashboard."""
    with dashboard_of(file) as served:
        yield served


class Watched:
    """A page, and what its console says."""

    def __init__(self, page: Page) -> None:
        self.page, self.said = page, list[str]()
        page.on("console", lambda message: self.said.append(message.text))
        page.on("pageerror", lambda error: self.said.append(str(error)))
        page.on("dialog", lambda dialog: self.said.append(f"dialog {dialog.message}"))


@pytest.fixture
def opened(browser: Browser, url: str) -> Iterator[Any]:
    """Opens pages of the dashboard, in contexts of their own."""
    contexts = []

    def open_page(**options: Any) -> Watched:
        context = browser.new_context(base_url=url, **{"locale": "en-GB", **options})
        context.set_default_timeout(LONG)
        contexts.append(context)
        return Watched(context.new_page())

    yield open_page
    for each in contexts:
        each.close()


def troubles(page: Page) -> list[str]:
    """Return what axe finds wrong with a page."""
    found = Axe().run(page).response["violations"]
    return [f"{each['id']}: {node['html'][:200]}" for each in found for node in each["nodes"]]


@pytest.mark.repeats("dark", decided="tests/integration/web/test_browser.py")
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_each_page_looks_right(opened: Any, ids: dict[str, int], theme: str) -> None:
    """Wide and at 320 px: nothing beside the window, nothing that axe finds, a silent console."""
    for size in (WIDE, NARROW) if theme == "light" else (WIDE,):  # no width is of a theme
        watched = opened(viewport=size, color_scheme=theme)
        for name, path in PAGES.items():
            watched.page.goto(path.format_map(ids))
            where = (name, theme, size["width"])
            beside = watched.page.evaluate("document.documentElement.scrollWidth - innerWidth")
            assert (where, beside) == (where, 0)
            if size is WIDE or name in ("jobs", "job"):  # contrast does not depend on the width
                assert (where, troubles(watched.page)) == (where, [])
            _picture(watched.page, name, theme, size)
        expected = [each for each in watched.said if "Failed to load resource" not in each]
        assert expected == []


def _picture(page: Page, name: str, theme: str, size: dict[str, int]) -> None:
    """Write the picture of a page for the documents, if they are asked for."""
    if IMAGES is None:
        return
    narrow = size is NARROW
    if (name, theme) not in PICTURED or (narrow and name == "job"):
        return
    ends = f"{'-narrow' if narrow else ''}-{theme}"
    page.screenshot(path=Path(IMAGES) / f"dashboard-{name}{ends}.png")


def test_the_theme_is_chosen_by_hand(opened: Any) -> None:
    """Against the system's; the choice is kept, and so is the language."""
    page = opened(color_scheme="light").page
    page.goto("/jobs")
    light = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    page.get_by_label("Theme").select_option("dark")
    page.wait_for_selector("html[data-theme=dark]")
    assert page.evaluate("getComputedStyle(document.documentElement).backgroundColor") != light
    page.get_by_label("Language").select_option("pt-BR")
    page.wait_for_selector("html[lang=pt-BR]")
    page.goto("/queues")
    expect(page.get_by_role("heading", level=1)).to_have_text("Filas")


def test_without_scripts_all_works(opened: Any, ids: dict[str, int], file: Path) -> None:
    """A dead job is found, understood and redriven by links and forms alone."""
    page = opened(java_script_enabled=False).page
    page.goto("/")
    page.get_by_role("navigation").get_by_role("link", name="Errors").click()
    page.get_by_role("link", name=re.compile("ConnectionError")).click()
    page.locator(f'a[href="/jobs/{ids["dead"]}"]').click()
    expect(page.locator(".attempt").first).to_contain_text("refused the connection")
    page.get_by_role("button", name="Redrive").click()
    expect(page.get_by_role("status")).to_contain_text("enqueued again")
    with closing(sqlite3.connect(file)) as database:
        rows = database.execute(
            "SELECT count(*) FROM mutirao_job WHERE redrive_of = ?", (ids["dead"],)
        ).fetchone()
    assert rows == (1,)
    page.goto("/jobs?q=state:scheduled")
    page.locator("input[name=id]").first.check()
    page.get_by_role("button", name="Run now").click()
    expect(page.get_by_role("status")).to_contain_text("due now")


def test_by_keyboard_alone(opened: Any) -> None:
    """Search, go through the rows, choose one, open one, and the list of keys."""
    page = opened().page
    page.goto("/jobs")
    page.keyboard.press("/")
    expect(page.locator("#q")).to_be_focused()
    page.keyboard.type("task:resize_photo state:succeeded")
    page.keyboard.press("Enter")
    page.wait_for_url("**/jobs?q=*")
    page.keyboard.press("j")
    page.keyboard.press("j")
    expect(page.locator("tbody tr").nth(1)).to_have_class("at")
    page.keyboard.press("k")
    page.keyboard.press("x")
    expect(page.locator("tbody tr").first.locator("input[name=id]")).to_be_checked()
    expect(page.locator("#chosen-number")).to_have_text("One chosen:")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"/jobs/\d+$"))


def test_a_filter_is_suggested_while_it_is_typed(opened: Any) -> None:
    """By keys and by the pointer; nothing is in the way of who types it whole."""
    page = opened().page
    page.goto("/jobs")
    field = page.get_by_role("combobox", name="Filter")
    field.press_sequentially("que")
    suggested = page.get_by_role("listbox", name="Suggestions").get_by_role("option")
    expect(suggested).to_have_count(1)
    assert troubles(page) == []
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(field).to_have_value("queue:")
    suggested.filter(has_text="mail").click()
    expect(field).to_have_value("queue:mail ")
    field.press_sequentially("state:de")
    expect(suggested.filter(has_text="dead")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#suggestions")).to_be_hidden()
    page.keyboard.type("ad")
    page.keyboard.press("Enter")
    page.wait_for_url("**/jobs?q=queue*")


def test_the_skip_link_leads_to_the_content(opened: Any) -> None:
    """It is the first that a tab finds."""
    page = opened().page
    page.goto("/jobs")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()


def test_pages_are_live(opened: Any, file: Path) -> None:
    """Parts change by themselves; not while they are paused, nor while the tab is hidden."""
    page = opened().page
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.clock.install()
    page.goto("/jobs?q=task:live_one")
    expect(page.locator("#rows")).to_contain_text("No job matches")
    _enqueue(file, NewJob(task="live_one"))
    page.clock.run_for(6_000)
    expect(page.locator("#rows")).to_contain_text("live_one")

    page.get_by_role("button", name="Pause updates").click()
    asked.clear()
    page.clock.run_for(60_000)
    assert asked == []
    page.get_by_role("button", name="Resume updates").click()
    expect(page.get_by_role("button", name="Pause updates")).to_be_visible()
    page.clock.run_for(6_000)
    page.evaluate(
        "Object.defineProperty(document, 'hidden', {get: () => true, configurable: true});"
        "document.dispatchEvent(new Event('visibilitychange'))"
    )
    asked.clear()
    page.clock.run_for(60_000)
    assert asked == []


def _enqueue(file: Path, *jobs: NewJob) -> list[int]:
    """Enqueue jobs as another program would."""
    app = Mutirao(f"sqlite:///{file}", max_payload=4_000_000)
    ids = app.enqueue_many(jobs)
    app.close()
    return ids


HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'\"--></style></script><svg/onload=alert(1)>",
    "{{ 7 * 7 }}{% raw %}${7*7}",
    "javascript:alert(1)",
    "\u202egnp.exe\u202c \u2066hidden\u2069 \u200b\ufeff\u00ad",
    "\x1b[2J\x07\x08\x7f\x9b",
    "𝕿𝖊𝖘𝖙 🧑‍🤝‍🧑 مرحبا",
    "W" * 1_000_000,
    "line\n" * 20_000,
)


def test_hostile_texts_show_harmlessly(opened: Any, file: Path) -> None:
    """Markup, signs that act, and a line of a megabyte, in the list and on the page of the job."""
    watched = opened(viewport=NARROW)
    page = watched.page
    ids = _enqueue(file, *map(_hostile, HOSTILE))
    for path in (f"/jobs?q=id:{ids[0]}..{ids[-1]}", *(f"/jobs/{id}" for id in ids)):
        page.goto(path)
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") == 0
        assert page.locator("main img, main script, main svg[onload]").count() == 0
        shown = page.locator("main").inner_text()
        assert not re.search("[\u202e\u2066\u200b\ufeff\x1b\x07\x9b]", shown)
    assert watched.said == []


def _hostile(text: str) -> NewJob:
    """Return a job that has a text everywhere."""
    args = json.dumps({"a": text, text[:90]: [text[:99]]})
    few = text[:90]
    return NewJob(
        task=f"t {few}", args=args, key=few, tags=(few,), queue=few, tenant=few, group=few,
        metadata={few: text[:1_000]},
    )  # fmt: skip
