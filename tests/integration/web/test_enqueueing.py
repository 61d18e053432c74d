"""The form that enqueues a job: made from the task's signature, and filled from another job."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from html import unescape
from typing import Any, Literal

import httpx2
import pytest

from mutirao import JobState, Mutirao
from tests.integration.web.conftest import Browser, by_header
from tests.support.dashboard import SECRET, Shop

FIELD = re.compile(
    r'<(input|textarea|select) name="arg\.(\w+)"(?:[^>]*? value="([^"]*)")?[^>]*>(?:\n([^<]*))?'
)


def fields_of(page: str) -> dict[str, tuple[str, str]]:
    """Return the kind and the value of each field of an argument."""
    return {
        name: (kind, unescape(value or text or ""))
        for kind, name, value, text in FIELD.findall(page)
    }


async def test_a_form_has_the_arguments_of_the_task(browser: Browser) -> None:
    """Their names, types and defaults; who only looks has none, nor who sees some jobs."""
    page = await browser.page("/enqueue?task=resize_photo", "act")
    assert fields_of(page) == {"path": ("input", ""), "width": ("input", "")}
    assert "int = 800" in page
    assert "mutirao.webhook" not in page
    for role in ("read", "mail", "none"):
        assert (await browser.get("/enqueue?task=resize_photo", role)).status_code == 403
        assert 'href="/enqueue"' not in (await browser.get("/jobs", role)).text
    assert (await browser.get("/enqueue?task=none")).status_code == 404


async def test_what_is_typed_becomes_a_job(browser: Browser, shop: Shop) -> None:
    """By the types of the arguments, with options; the audit knows who did it."""
    form: dict[str, Any] = {
        "task": "resize_photo", "arg.path": " 7 ", "arg.width": "640",
        "queue": "bulk", "priority": "-3", "delay": "2h", "tenant": "acme", "key": "k1",
    }  # fmt: skip
    answer = await browser.post("/act/enqueue", "act", **form)
    [job, *_] = await shop.app.ajobs()
    assert answer.headers["location"] == f"/jobs/{job.id}"
    assert job.args == {"path": " 7 ", "width": 640}
    assert (job.queue, job.priority, job.state) == ("bulk", -3, JobState.SCHEDULED)
    assert (job.tenant, job.key) == ("acme", "k1")
    [entry] = await browser.site.client.actions.alist()
    assert (entry.who, entry.about) == ("bia", ("enqueue", "task", "resize_photo"))
    again = await browser.post("/act/enqueue", "act", **form)
    assert again.headers["location"] == f"/jobs/{job.id}"
    assert "no other was enqueued" in await browser.page(f"/jobs/{job.id}", "act")


@pytest.mark.parametrize(
    ("form", "why"),
    [
        ({"arg.width": "wide", "arg.path": "a"}, "“width” is no JSON"),
        ({"arg.width": '"wide"', "arg.path": "a"}, "width"),
        ({"arg.width": "9" * 5_000, "arg.path": "a"}, "“width” is no JSON"),
        ({"arg.width": "1", "arg.path": "a", "queue": "q" * 200}, "queue"),
    ],
)
async def test_what_does_not_fit_is_told_in_the_form(
    browser: Browser, shop: Shop, form: dict[str, Any], why: str
) -> None:
    """With what was typed still in it."""
    before = await shop.app.ajobs(limit=1)
    answer = await browser.post("/act/enqueue", task="resize_photo", **form)
    assert answer.status_code == 400
    told = re.search(r'role="alert">.*?<p>(.*?)</p>', answer.text, re.S)
    assert told is not None
    assert why in told[1]
    assert fields_of(answer.text)["width"][1] == form["arg.width"]
    assert await shop.app.ajobs(limit=1) == before


async def test_a_job_is_edited_and_enqueued_again(browser: Browser, shop: Shop) -> None:
    """Its secret is never in the page, and goes with the new job if its field stays as it is."""
    page = await browser.page(f"/enqueue?from={shop.dead}", "act")
    assert SECRET not in page
    shown = fields_of(page)
    assert shown["password"][1] == "•••"
    assert shown["to"][1] == "ana@example.com"
    form: dict[str, Any] = {f"arg.{name}": value for name, (_, value) in shown.items()}
    form |= {"task": "send_receipt", "from": str(shop.dead), "arg.to": "bia@example.com"}
    await browser.post("/act/enqueue", "act", **form)
    [job, *_] = await shop.app.ajobs()
    dead = await shop.app.ajob(shop.dead)
    assert job.args == {**dead.args, "to": "bia@example.com"}
    other: dict[str, Any] = {
        "task": "print_letter",
        "from": str(shop.dead),
        "arg.to": "x",
        "arg.token": "•••",
    }
    assert (await browser.post("/act/enqueue", "act", **other)).status_code == 400
    form["arg.password"] = "x•••"
    answer = await browser.post("/act/enqueue", "act", **form)
    assert "give the whole value" in answer.text
    assert (await browser.get(f"/enqueue?from={shop.dead}", "blind")).status_code == 403
    assert "/enqueue?from" not in await browser.page(f"/jobs/{shop.dead}", "blind")
    answer = await browser.post("/act/enqueue", "blind", **form)
    assert answer.status_code == 403


@pytest.fixture
async def site(migrated_sqlite_url: str) -> AsyncIterator[tuple[Mutirao, Browser]]:
    """An application whose task has arguments of all kinds."""
    app = Mutirao(migrated_sqlite_url)

    @app.task
    def mix(
        text: str, count: int, ratio: float = 0.5, loud: bool = False,
        how: Literal["a", "b"] = "a", many: list[int] | None = None, **more: Any,
    ) -> None: ...  # fmt: skip

    made = app.web(access=by_header)
    yield app, Browser(made)
    await app.aclose()


async def test_all_kinds_of_arguments(site: tuple[Mutirao, Browser]) -> None:
    """A text is what is typed, all else is JSON; what is left empty has its default."""
    app, browser = site
    page = await browser.page("/enqueue?task=mix")
    assert [*fields_of(page)] == ["text", "count", "ratio", "loud", "how", "many", "more"]
    form: dict[str, Any] = {
        "task": "mix", "arg.text": "", "arg.count": "3", "arg.loud": "true", "arg.many": "[1, 2]",
        "arg.more": '{"x": "ä"}'}  # fmt: skip
    await browser.post("/act/enqueue", **form)
    [job] = await app.ajobs()
    assert job.args["text"] == ""
    assert (job.args["count"], job.args["loud"], job.args["many"]) == (3, True, [1, 2])
    for bad, why in (({}, "“count” is missing"), ({"arg.more": "[]"}, "is no JSON object")):
        given: dict[str, Any] = {"arg.text": "", **({"arg.count": "1"} if bad else {}), **bad}
        answer: httpx2.Response = await browser.post("/act/enqueue", task="mix", **given)
        assert why in answer.text
    assert len(await app.ajobs()) == 1
