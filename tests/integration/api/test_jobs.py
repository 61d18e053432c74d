"""Jobs by the API: pages, one job, ids, and what is not shown."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import closing
from typing import Any

import httpx2
import pytest

from mutirao import Mutirao
from mutirao.testing import drain
from mutirao.web.access import Access
from mutirao.web.site import Settings, Site
from tests.integration.api.conftest import Ask


async def test_pages_follow_each_other(ask: Ask, send: Any, tick: Any) -> None:
    """Each job of the filter is on one page, newest first, and the last page has no next one."""
    sent = [(await send.aenqueue(each)).id for each in range(5)]
    await tick.aenqueue()
    seen: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        query = {"filter": "queue:mail", "size": 2, "cursor": cursor}
        page = (await ask("read", "GET", "/jobs", params=query)).json()
        seen += [each["id"] for each in page["jobs"]]
        cursor = page["next"]
    assert seen == [str(each) for each in reversed(sent)]


async def test_a_page_that_is_just_full_is_the_last(ask: Ask, send: Any) -> None:
    """Nobody is sent on to an empty page."""
    await send.aenqueue(1)
    page = (await ask("read", "GET", "/jobs", params={"size": 1})).json()
    assert (len(page["jobs"]), page["next"]) == (1, None)


async def test_a_job_is_shown_with_its_attempts(ask: Ask, shop: Mutirao) -> None:
    """Errors and attempts are there; ids are text; what is a secret is blanked."""

    @shop.task(max_attempts=1)
    def charge(card: int, password: str) -> None:
        raise ValueError("refused, password=hunter2")

    job = await charge.aenqueue(4, password="hunter2")
    await asyncio.to_thread(drain, shop)
    found = (await ask("read", "GET", f"/jobs/{job.id}")).json()
    assert (found["id"], found["state"], found["args"]) == (
        str(job.id), "dead", {"card": 4, "password": "•••"},
    )  # fmt: skip
    assert [each["outcome"] for each in found["attempts"]] == ["dead"]
    assert isinstance(found["attempts"][0]["worker"], str)
    assert "hunter2" not in str(found)
    assert "refused, password=•••" in found["error"]


async def test_a_list_has_the_beginnings_of_errors(ask: Ask, shop: Mutirao) -> None:
    """A page of jobs with long ones is no long page; the job itself has all of it."""

    @shop.task(max_attempts=1)
    def fail() -> None:
        raise ValueError("x" * 3_000)

    job = await fail.aenqueue()
    await asyncio.to_thread(drain, shop)
    [listed] = (await ask("read", "GET", "/jobs")).json()["jobs"]
    assert len(listed["error"]) == 1_001
    whole = (await ask("read", "GET", f"/jobs/{job.id}")).json()["error"]
    assert "x" * 3_000 in whole
    assert whole.startswith(listed["error"][:-1])


async def test_what_jobs_carry_is_left_out(shop: Mutirao, send: Any) -> None:
    """Who may not see contents gets none, and is told so."""
    await send.aenqueue(77_123)
    site = Site(shop, Settings(access=lambda _: Access.read(contents=False)))
    transport = httpx2.ASGITransport(app=site)
    async with httpx2.AsyncClient(transport=transport, base_url="http://jobs/api/v1") as client:
        for path in ("/jobs", "/jobs/1"):
            answer = await client.get(path)
            assert "77123" not in answer.text
            assert '"redacted":true' in answer.text
        for path in ("/jobs", "/counts"):
            asked = {"filter": "arg.order_id:77123"}
            assert (await client.get(path, params=asked)).status_code == 422
    await site.client.aclose()


@pytest.mark.parametrize("id", ["0", "-1", "x", "01", "1.0", "9223372036854775808", "9" * 400])
async def test_what_is_no_id_is_refused(id: str, ask: Ask) -> None:
    """It is 422 with the place, whatever it is."""
    answer = await ask("read", "GET", f"/jobs/{id}")
    assert (answer.status_code, answer.json()["place"]) == (422, "path.id")


async def test_no_job_is_found_by_a_secret(ask: Ask, send: Any) -> None:
    """Whoever asks, and whatever is done to the jobs: the number would confirm it."""
    await send.aenqueue(7, password="hunter2")
    asked = "arg.password:hunter2"
    for scope, path in (("read", "/jobs"), ("admin", "/counts")):
        answer = await ask(scope, "GET", path, params={"filter": asked})
        assert (answer.status_code, answer.json()["type"]) == (422, "urn:mutirao:InvalidFilter")
        assert "hunter2" not in answer.text
    body = {"action": "cancel", "filter": asked, "expected": 1}
    assert (await ask("act", "POST", "/actions", json=body)).status_code == 422


async def test_a_filter_that_is_none_is_refused(ask: Ask) -> None:
    """It is 422 with the class of the error, and where in the text."""
    answer = await ask("read", "GET", "/jobs", params={"filter": "state:ready colour:red"})
    problem = answer.json()
    assert answer.status_code == problem["status"] == 422
    assert (problem["type"], problem["position"]) == ("urn:mutirao:InvalidFilter", 12)
    assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize(
    ("query", "place"),
    [
        ("size=0", "query.size"),
        ("size=101", "query.size"),
        ("size=x", "query.size"),
        ("colour=red", "query"),
        ("size=1&size=2", "query"),
        ("filter=%00", "query"),
        ("filter=%ff", "query"),
        (f"filter={'x' * 20_000}", "query"),
    ],
)
async def test_a_parameter_that_cannot_be_is_refused(query: str, place: str, ask: Ask) -> None:
    """It is 422 with the place."""
    answer = await ask("read", "GET", f"/jobs?{query}")
    assert (answer.status_code, answer.json()["place"]) == (422, place), answer.text


@pytest.mark.parametrize("cursor", ["zzz", "MS4wMDAw", "%C3%A9", "j"])
async def test_a_cursor_of_nobody_is_refused(cursor: str, ask: Ask) -> None:
    """It is 422, as a filter that is none."""
    answer = await ask("read", "GET", f"/jobs?cursor={cursor}")
    assert (answer.status_code, answer.json()["type"]) == (422, "urn:mutirao:InvalidFilter")


async def test_jobs_are_counted_up_to_a_number(ask: Ask, send: Any, tick: Any) -> None:
    """And where it stops, it says so; of those that whoever asks may see."""
    for each in range(3):
        await send.aenqueue(each)
    await tick.aenqueue()
    for scope, query, counted in (
        ("read", {}, {"jobs": 4, "at_least": False}),
        ("some", {}, {"jobs": 3, "at_least": False}),
        ("read", {"filter": "queue:mail", "most": 2}, {"jobs": 2, "at_least": True}),
    ):
        assert (await ask(scope, "GET", "/counts", params=query)).json() == counted


async def test_a_job_says_why_it_waits(ask: Ask, shop: Mutirao, tick: Any) -> None:
    """By kinds that programs know, and in words; not to who may not see it."""
    job = await tick.aenqueue()
    await shop.apause(queue="default")
    found = (await ask("read", "GET", f"/jobs/{job.id}/reasons")).json()["reasons"]
    assert found[0]["kind"] == "paused"
    assert "default" in found[0]["text"]
    assert (await ask("some", "GET", f"/jobs/{job.id}/reasons")).status_code == 404


async def test_errors_find_their_jobs(ask: Ask, shop: Mutirao) -> None:
    """Each has the filter of its jobs; a text with a secret in it has none."""

    @shop.task(max_attempts=1)
    def fail(text: str) -> None:
        raise ValueError(text)

    for text in ("no such card", "no such card", "password=hunter2"):
        await fail.aenqueue(text)
    await asyncio.to_thread(drain, shop)
    answer = await ask("read", "GET", "/errors", params={"task": "fail"})
    assert "hunter2" not in answer.text
    found = {each["message"]: each for each in answer.json()["errors"]}
    assert found["password=•••"]["filter"] is None
    assert found["no such card"]["attempts"] == 2
    query = {"filter": found["no such card"]["filter"]}
    assert len((await ask("read", "GET", "/jobs", params=query)).json()["jobs"]) == 2


async def test_what_jobs_carry_is_json_whatever_it_is(ask: Ask, send: Any, lite_url: str) -> None:
    """Half a character and a number of a hundred digits are answered as they are stored."""

    for value in ("\ud800", 10**100, "\u202e<script>", 2**53 + 1):
        job = await send.aenqueue(1)
        with closing(sqlite3.connect(lite_url.removeprefix("sqlite:///"))) as file, file:
            written = (json.dumps({"value": value}), job.id)
            file.execute("update mutirao_job set args = ? where id = ?", written)
        answer = await ask("read", "GET", f"/jobs/{job.id}")
        assert answer.status_code == 200
        assert answer.json()["args"] == {"value": value}
