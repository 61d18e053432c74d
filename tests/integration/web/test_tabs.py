"""Fifty open tabs cost the database no more than one: statements are counted."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import Engine, event

from mutirao.sql.drivers import own
from mutirao.web.live import Readings
from mutirao.web.pages import PAGES
from tests.integration.web.conftest import Browser

# Of each page, the most statements that it may send; BEGIN and COMMIT not counted.
MOST = 12
SHARED = ["/", "/queues", "/schedules", "/workers", "/limits", "/topics", "/endpoints", "/hosts",
          "/errors"]  # fmt: skip
OWN_LOOK = {"/doctor"}  # it examines all there is, when somebody asks for it


@contextmanager
def counted() -> Iterator[list[str]]:
    """Collect the statements that are sent meanwhile."""
    sent: list[str] = []

    def hear(_: Any, __: Any, statement: str, *___: Any) -> None:
        sent.append(statement)

    event.listen(Engine, "before_cursor_execute", hear)
    try:
        with own.counted(lambda: sent.append("of our own driver")):
            yield sent
    finally:
        event.remove(Engine, "before_cursor_execute", hear)


async def statements(browser: Browser, path: str, tabs: int) -> int:
    """Return how many statements so many tabs send at once, after nothing was kept."""
    browser.site.readings.forget()
    with counted() as sent:
        answers = await asyncio.gather(*(browser.get(path) for _ in range(tabs)))
    assert {each.status_code for each in answers} == {200}
    assert [each for each in sent if "BEGIN" in each] == []  # SQLite's keeps others from writing
    return len(sent)


@pytest.mark.parametrize("path", SHARED)
async def test_many_tabs_cost_no_more_than_one(browser: Browser, path: str) -> None:
    """What they show alike is read once for all of them."""
    browser.site.readings = Readings(clock=lambda: 0.0)
    await browser.page(path)  # connections are open then
    one = await statements(browser, path, 1)
    assert 0 < one <= MOST
    assert await statements(browser, path, 50) == one
    with counted() as sent:
        await browser.page(path)
    assert sent == []  # no time has passed


async def test_a_page_sends_few_statements(browser: Browser) -> None:
    """Each of them, as the first one that asks."""
    await browser.page("/jobs")
    paths = [page.path for page in PAGES if page.listed and page.path not in OWN_LOOK]
    paths += ["/jobs/1", "/jobs?q=state:running", "/everything?q=state:dead", "/enqueue?from=1"]
    found = {path: await statements(browser, path, 1) for path in paths}
    assert {path: number for path, number in found.items() if number > MOST} == {}
