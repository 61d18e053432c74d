"""What somebody may not see is not told in another way: by filters, links, reasons or the audit."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from starlette.requests import Request

from mutirao.model.audit.actions import Action, ActionKind
from mutirao.model.jobs.states import JobState
from mutirao.model.reading.standing import Full, Standing, explain
from mutirao.web.access import Access
from mutirao.web.page_call import PageCall
from tests.integration.web.conftest import Browser
from tests.support.dashboard import SECRET, Shop

ASKED = ['message:"*refused*"', "arg.order_id:4", "key:x", "-message:a", "state:dead arg.to:a"]


@pytest.mark.parametrize("asked", ASKED)
async def test_no_job_is_found_by_what_is_hidden(browser: Browser, asked: str) -> None:
    """Otherwise whether there are any tells the contents, a character at a time."""
    for path in ("/jobs", "/everything"):
        answer = await browser.client.get(path, params={"q": asked}, headers={"x-role": "blind"})
        assert answer.status_code == 400
        assert "as what jobs carry is not shown to you" in answer.text
    answer = await browser.client.get("/jobs", params={"q": asked}, headers={"x-role": "read"})
    assert answer.status_code == 200


@pytest.mark.parametrize("name", ["password", "user.apiKey", "credentials.name"])
async def test_no_job_is_found_by_a_secret(browser: Browser, name: str) -> None:
    """Not by an administrator either, as to everybody it is blanked."""
    for path in ("/jobs", "/everything"):
        answer = await browser.client.get(path, params={"q": f"arg.{name}:{SECRET}"})
        assert answer.status_code == 400
        assert "whose name says that it is a secret" in answer.text


async def test_nothing_is_done_to_jobs_by_what_is_hidden(browser: Browser, shop: Shop) -> None:
    """How many there were, and the audit, would tell."""
    for role, asked in (("blind", "arg.order_id:4"), ("admin", f"arg.password:{SECRET}")):
        await browser.post("/act/everything", role, q=asked, action="redrive")
        page = await browser.page("/jobs", role)
        assert "no job is found by" in page
    await browser.site.background.all_done()
    assert not await shop.app.actions.alist()


async def test_an_access_may_have_any_filter(browser: Browser) -> None:
    """The application says it, and it is not shown."""
    assert "send_receipt" in await browser.page("/jobs", "secretive")


async def test_what_jobs_carry_is_hidden_wherever_it_is(browser: Browser, shop: Shop) -> None:
    """In the keys of jobs, and in the filters of the audit."""
    keyed = await shop.app.task_named("sync_stock").using(key="of ana@example.com").aenqueue("x")
    await shop.app.actions.arun(Action(ActionKind.RETRY), 'message:"ana@example.com"', by="ana")
    told = [f"/jobs/{keyed.id}", "/audit"]
    for path in (*told, "/api/v1/jobs", f"/api/v1/jobs/{keyed.id}"):
        assert "ana@example.com" not in (await browser.get(path, "blind")).text
    for path in told:
        assert "ana@example.com" in await browser.page(path, "read")


async def test_secrets_in_keys_and_filters_are_blanked(browser: Browser, shop: Shop) -> None:
    """Also in the links that lead to their jobs."""
    secret = f"token={SECRET}"
    keyed = await shop.app.task_named("sync_stock").using(key=secret).aenqueue("x")
    await shop.app.actions.arun(Action(ActionKind.RETRY), f'message:"{secret}"', by="ana")
    for path in (f"/jobs/{keyed.id}", "/audit"):
        page = await browser.page(path)
        assert "token=•••" in page
        assert SECRET not in page


async def test_the_api_names_no_job_that_is_not_seen(browser: Browser, shop: Shop) -> None:
    """Not the one that a job was made of, where whoever asks sees only some."""
    [new] = await shop.app.aredrive(shop.dead)
    for role, told in (("read", str(shop.dead)), ("mail", None)):
        job = (await browser.get(f"/api/v1/jobs/{new}", role)).json()
        assert job["redrive_of"] == told


FACTS: dict[str, Any] = {
    "after": {"after": (4_711,)},
    "key": {"held_by": 4_711},
    "limit": {"full": Full(limit="mail", key="ana", most=4_711, per=None, running=4_711)},
    "ahead": {"ahead": 4_711},
}


@pytest.mark.parametrize("kind", FACTS)
@pytest.mark.parametrize("language", ["en", "pt-BR"])
def test_reasons_tell_nothing_of_jobs_that_are_not_seen(
    browser: Browser, kind: str, language: str
) -> None:
    """Neither their ids nor how many there are, in either language."""
    now, headers = datetime(2026, 1, 1, tzinfo=UTC), [(b"accept-language", language.encode())]
    standing = Standing(
        id=1, state=JobState.READY, task="t", queue="q", priority=0, run_at=now, attempt=0,
        **FACTS[kind],
    )  # fmt: skip
    worker = _Worker()
    [reason] = [each for each in explain(standing, [worker], now) if each.kind == kind]  # type: ignore[list-item]
    request = Request({"type": "http", "headers": headers})
    some = PageCall(browser.site, request, Access.read("ana", only="queue:q"))
    everything = PageCall(browser.site, request, Access.read("ana"))
    shown = browser.site.why(reason, everything), browser.site.jobs_in(reason, everything)
    assert "711" in f"{shown}"
    shown = browser.site.why(reason, some), browser.site.jobs_in(reason, some)
    assert "711" not in f"{shown} {reason.brief}"
    assert "ana" not in reason.brief


class _Worker:
    """A worker that takes any job."""

    alive, concurrency = True, 1

    def serves(self, *names: str) -> bool:
        """Take it."""
        return True
