"""Actions by the API: on named jobs, or on what a filter finds if the number is as expected."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
import pytest
from starlette.requests import Request

from mutirao import Mutirao
from mutirao.client.reading import Reading
from mutirao.model.jobs.records import JobFilter
from mutirao.model.reading.figures import Counted
from mutirao.sql.statements.finding import paging
from mutirao.web import background
from mutirao.web.access import Access
from mutirao.web.api import begun_actions, bulk
from mutirao.web.site import Settings, Site
from tests.integration.api.conftest import Ask
from tests.support.waiting import until


async def test_named_jobs_are_acted_on(ask: Ask, shop: Mutirao, send: Any) -> None:
    """Ids are text or numbers; those that it does not reach are counted."""
    first, second = [(await send.aenqueue(each)).id for each in range(2)]
    body = {"action": "cancel", "ids": [str(first), second, 9_999]}
    done = (await ask("act", "POST", "/actions", json=body)).json()
    assert (done["matched"], done["done"], done["passed_over"]) == (3, 2, 1)
    assert (done["who"], done["state"], done["why"]) == ("does", "done", {"gone": 1})
    assert {each.state for each in await shop.ajobs()} == {"cancelled"}


async def test_a_filter_needs_the_number_that_was_seen(
    ask: Ask, shop: Mutirao, send: Any, tick: Any
) -> None:
    """With another number nothing is done; with the right one all that match, and no others."""
    for each in range(3):
        await send.aenqueue(each)
    await tick.aenqueue()
    body = {"action": "cancel", "filter": "queue:mail", "expected": 2}
    answer = await ask("act", "POST", "/actions", json=body)
    assert (answer.status_code, answer.json()["matched"]) == (409, 3)
    assert {each.state for each in await shop.ajobs()} == {"ready"}
    done = (await ask("act", "POST", "/actions", json={**body, "expected": 3})).json()
    assert (done["done"], done["filter"]) == (3, "queue:mail")
    assert [each.task for each in await shop.ajobs(state="ready")] == ["tick"]


async def test_a_redrive_by_filter_is_of_dead_jobs(ask: Ask, shop: Mutirao, send: Any) -> None:
    """As on the command line: unless the filter says a state."""
    job = await send.aenqueue(1)
    await shop.acancel(job.id)
    body = {"action": "redrive", "filter": "queue:mail", "expected": 0}
    done = (await ask("act", "POST", "/actions", json=body)).json()
    assert (done["done"], done["filter"]) == (0, "queue:mail state:dead")
    body = {"action": "redrive", "filter": "state:cancelled", "expected": 1}
    assert (await ask("act", "POST", "/actions", json=body)).json()["done"] == 1
    [again] = await shop.ajobs(state="ready")
    assert again.redrive_of == job.id


async def test_waiting_jobs_are_changed_and_due(ask: Ask, shop: Mutirao, send: Any) -> None:
    """New values, and then due now."""
    job = await send.using(delay=600).aenqueue(1)
    body = {"action": "change", "ids": [job.id], "change": {"priority": 3, "queue": "bulk"}}
    assert (await ask("act", "POST", "/actions", json=body)).status_code == 200
    await ask("act", "POST", "/actions", json={"action": "retry", "ids": [job.id]})
    found = await shop.ajob(job.id)
    assert (found.priority, found.queue, found.state) == (3, "bulk", "ready")


async def test_who_sees_some_jobs_acts_on_those(
    ask: Ask, shop: Mutirao, send: Any, tick: Any
) -> None:
    """Also by a filter that would find others."""
    mail, other = (await send.aenqueue(1)).id, (await tick.aenqueue()).id
    by_ids = {"action": "cancel", "ids": [other]}
    assert (await ask("some", "POST", "/actions", json=by_ids)).status_code == 404
    by_filter = {"action": "cancel", "filter": "state:ready", "expected": 1}
    done = (await ask("some", "POST", "/actions", json=by_filter)).json()
    assert (done["done"], done["who"]) == (1, "some")
    assert [(await shop.ajob(each)).state for each in (mail, other)] == ["cancelled", "ready"]
    mine = (await ask("some", "GET", f"/actions/{done['id']}")).json()
    assert mine == done


async def test_who_sees_some_jobs_acts_on_those_that_still_are(
    ask: Ask, shop: Mutirao, send: Any, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job that has left what they see since they named it is left alone, and not told of."""
    stays, leaves = [(await send.aenqueue(each)).id for each in range(2)]
    cancel = site.client.store.cancel

    async def late(which: JobFilter) -> list[int]:
        await shop.achange(leaves, queue="default")
        return await cancel(which)

    monkeypatch.setattr(site.client.store, "cancel", late)
    body = {"action": "cancel", "ids": [stays, leaves]}
    done = (await ask("some", "POST", "/actions", json=body)).json()
    assert (done["done"], done["why"], done["filter"]) == (1, {"not matching": 1}, "queue:mail")
    assert [(await shop.ajob(each)).state for each in (stays, leaves)] == ["cancelled", "ready"]


async def test_no_job_is_moved_to_where_it_is_not_seen(ask: Ask, shop: Mutirao, send: Any) -> None:
    """Who sees only the jobs of a queue changes all else of them."""
    job = await send.aenqueue(1)
    body = {"action": "change", "ids": [job.id], "change": {"priority": 3, "queue": "default"}}
    refused = await ask("some", "POST", "/actions", json=body)
    assert (refused.status_code, refused.json()["type"]) == (403, "urn:mutirao:Refused")
    body["change"] = {"priority": 3}
    assert (await ask("some", "POST", "/actions", json=body)).status_code == 200
    found = await shop.ajob(job.id)
    assert (found.queue, found.priority) == ("mail", 3)


async def test_a_number_that_was_not_counted_to_the_end_is_not_the_one(
    ask: Ask, send: Any, shop: Mutirao, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where counting stops before the number that is expected, nothing is done."""

    async def how_many(*_: object, **__: object) -> Counted:
        return Counted(1, at_least=True)

    await send.aenqueue(1)
    monkeypatch.setattr(Reading, "ahow_many", how_many)
    body = {"action": "cancel", "filter": "queue:mail", "expected": 1}
    answer = await ask("act", "POST", "/actions", json=body)
    assert (answer.status_code, answer.json()["type"]) == (409, "urn:mutirao:TooManyJobs")
    assert {each.state for each in await shop.ajobs()} == {"ready"}


async def test_the_number_of_an_action_is_counted_to_the_end(
    ask: Ask, send: Any, tick: Any, shop: Mutirao, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many newer jobs do not match; another number is refused as such."""
    monkeypatch.setattr(paging, "LOOKED_AT", 2)
    for task, given in ((send, (1,)), (tick, ()), (tick, ()), (tick, ()), (send, (2,)), (tick, ())):
        await task.aenqueue(*given)
    body = {"action": "cancel", "filter": "queue:mail", "expected": 1}
    refused = await ask("act", "POST", "/actions", json=body)
    assert (refused.status_code, refused.json()["type"]) == (409, "urn:mutirao:OtherNumber")
    assert refused.json()["matched"] == 2
    done = await ask("act", "POST", "/actions", json={**body, "expected": 2})
    assert (done.status_code, done.json()["done"]) == (200, 2)


@pytest.fixture
async def gate(site: Site, monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """The gate of the dashboard."""
    return gate_of(site, monkeypatch)


def gate_of(site: Site, monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Let batches of one job pass once it is set, but for the first, which passes at once."""
    gate, cancel = asyncio.Event(), site.client.store.cancel
    passed = 0

    async def cancelling(which: JobFilter) -> list[int]:
        nonlocal passed
        passed += 1
        if passed > 1:
            await gate.wait()
        return await cancel(which)

    monkeypatch.setattr(site.client.store, "cancel", cancelling)
    monkeypatch.setattr(bulk, "BATCH", 1)
    monkeypatch.setattr(begun_actions, "PATIENCE", 0.0)
    return gate


async def test_what_takes_long_goes_on_after_the_answer(
    ask: Ask, shop: Mutirao, send: Any, gate: asyncio.Event
) -> None:
    """The answer says where its progress is; it can be stopped there, after its batch."""
    for each in range(4):
        await send.aenqueue(each)
    body = {"action": "cancel", "filter": "queue:mail", "expected": 4}
    answer = await ask("act", "POST", "/actions", json=body)
    begun = answer.json()
    assert (answer.status_code, begun["state"], begun["done"]) == (202, "running", 1)
    path = answer.headers["location"].removeprefix("/api/v1")
    assert (await ask("read", "GET", path)).json()["state"] == "running"
    assert (await ask("act", "POST", f"{path}/stop")).status_code == 202
    gate.set()

    async def ended() -> Any:
        found = (await ask("read", "GET", path)).json()
        return found if found["state"] != "running" else None

    found = await until(ended)
    assert (found["state"], found["done"]) == ("stopped", 2)
    assert (await ask("act", "POST", f"{path}/stop")).json()["type"] == "urn:mutirao:NotRunning"
    assert len(await shop.ajobs(state="ready")) == 2


async def test_who_has_no_name_sees_the_actions_on_their_jobs(
    shop: Mutirao, send: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that takes long can be followed and stopped; one on other jobs is not there."""
    for each in range(2):
        await send.aenqueue(each)
    seen = {"x": "queue:mail", "y": "queue:default", "z": "queue:mail priority:0"}

    def access(request: Request) -> Access:
        return Access.act(only=seen[request.headers["x-who"]])

    async def ask_as(who: str, method: str, path: str, **more: Any) -> httpx2.Response:
        headers = {"x-who": who, "sec-fetch-site": "same-origin"}
        return await client.request(method, path, headers=headers, **more)

    site = Site(shop, Settings(access=access))
    gate = gate_of(site, monkeypatch)
    transport = httpx2.ASGITransport(app=site)
    async with httpx2.AsyncClient(transport=transport, base_url="http://jobs/api/v1") as client:
        body = {"action": "cancel", "filter": "state:ready", "expected": 2}
        begun = await ask_as("x", "POST", "/actions", json=body)
        assert (begun.status_code, begun.json()["who"]) == (202, "unknown")
        path = begun.headers["location"].removeprefix("/api/v1")
        assert (await ask_as("x", "GET", path)).json()["state"] == "running"
        for who in ("y", "z"):
            assert (await ask_as(who, "GET", path)).status_code == 404
            assert (await ask_as(who, "POST", f"{path}/stop")).status_code == 404
        assert (await ask_as("x", "POST", f"{path}/stop")).status_code == 202
        gate.set()
        await site.background.all_done()
    await site.client.aclose()


async def test_few_run_at_once(
    ask: Ask, send: Any, gate: asyncio.Event, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One more is refused, and not begun; what takes too long is interrupted, and says so."""
    monkeypatch.setattr(background, "MOST_AT_ONCE", 1)
    monkeypatch.setattr(background, "GRACE", 0.0)
    ids = [(await send.aenqueue(each)).id for each in range(3)]
    body = {"action": "cancel", "ids": ids}
    assert (await ask("act", "POST", "/actions", json=body)).status_code == 202
    refused = await ask("act", "POST", "/actions", json=body)
    assert (refused.status_code, refused.json()["type"]) == (429, "urn:mutirao:TooManyActions")
    await site.background.aclose()
    [found] = (await ask("read", "GET", "/actions")).json()["actions"]
    assert (found["state"], found["done"]) == ("stopped", 1)


async def test_what_runs_ends_its_batch_with_the_program(
    ask: Ask, shop: Mutirao, send: Any, gate: asyncio.Event, site: Site
) -> None:
    """It is not interrupted within it, and the next is not begun."""
    ids = [(await send.aenqueue(each)).id for each in range(3)]
    await ask("act", "POST", "/actions", json={"action": "cancel", "ids": ids})
    closing = asyncio.create_task(site.background.aclose())
    await asyncio.sleep(0)
    gate.set()
    await closing
    [found] = (await ask("read", "GET", "/actions")).json()["actions"]
    assert (found["state"], found["done"], found["error"]) == ("stopped", 2, None)
    assert len(await shop.ajobs(state="cancelled")) == 2


async def test_the_audit_is_a_list(ask: Ask, send: Any) -> None:
    """Newest first, a page at a time."""
    job = await send.aenqueue(1)
    for action in ("retry", "cancel", "redrive"):
        await ask("act", "POST", "/actions", json={"action": action, "ids": [job.id]})
    first = (await ask("read", "GET", "/actions", params={"size": 2})).json()
    more = {"size": 2, "cursor": first["next"]}
    second = (await ask("read", "GET", "/actions", params=more)).json()
    found = [each["action"] for each in (*first["actions"], *second["actions"])]
    assert (found, second["next"]) == (["redrive", "cancel", "retry"], None)


async def test_history_is_deleted(ask: Ask, shop: Mutirao, send: Any) -> None:
    """Of jobs that have ended, and of no others."""
    ended, live = (await send.aenqueue(1)).id, (await send.aenqueue(2)).id
    await shop.acancel(ended)
    body = {"action": "delete", "ids": [ended, live]}
    done = (await ask("act", "POST", "/actions", json=body)).json()
    assert (done["done"], done["why"]) == (1, {"ready": 1})
    assert [each.id for each in await shop.ajobs()] == [live]


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ({"action": "cancel"}, "body"),
        ({"action": "cancel", "filter": "queue:mail"}, "body"),
        ({"action": "cancel", "filter": "queue:mail", "ids": [1], "expected": 1}, "body"),
        ({"action": "cancel", "filter": "", "expected": 1}, "body.filter"),
        ({"action": "cancel", "ids": []}, "body.ids"),
        ({"action": "cancel", "ids": [1, "x"]}, "body.ids[1]"),
        ({"action": "cancel", "ids": [1, "9999999999999999999"]}, "body.ids[1]"),
        ({"action": "cancel", "ids": [True]}, "body.ids[0]"),
        ({"action": "cancel", "ids": list(range(1, 10_002))}, "body.ids"),
        ({"action": "explode", "ids": [1]}, "body.action"),
        ({"action": "change", "ids": [1]}, "body.change"),
        ({"action": "change", "ids": [1], "change": {}}, None),
        ({"action": "cancel", "ids": [1], "change": {"priority": 1}}, "body.change"),
    ],
)
async def test_what_says_not_which_or_what_is_refused(
    body: dict[str, Any], place: str | None, ask: Ask
) -> None:
    """It is 422, with the place where there is one."""
    answer = await ask("act", "POST", "/actions", json=body)
    assert (answer.status_code, answer.json().get("place")) == (422, place), answer.text
