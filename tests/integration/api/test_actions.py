"""Actions by the API: on named jobs, or on what a filter finds if the number is as expected."""

from __future__ import annotations

from typing import Any

import pytest

from mutirao import Mutirao
from tests.integration.api.conftest import Ask


async def test_named_jobs_are_acted_on(ask: Ask, shop: Mutirao, send: Any) -> None:
    """Ids are text or numbers; those that it does not reach are counted."""
    first, second = [(await send.aenqueue(each)).id for each in range(2)]
    body = {"action": "cancel", "ids": [str(first), second, 9_999]}
    done = (await ask("act", "POST", "/actions", json=body)).json()
    assert (sorted(done["ids"]), done["matched"], done["passed_over"]) == (
        [str(first), str(second)], 3, 1,
    )  # fmt: skip
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
    assert len(done["ids"]) == 3
    assert [each.task for each in await shop.ajobs(state="ready")] == ["tick"]


async def test_a_redrive_by_filter_is_of_dead_jobs(ask: Ask, shop: Mutirao, send: Any) -> None:
    """As on the command line: unless the filter says a state."""
    job = await send.aenqueue(1)
    await shop.acancel(job.id)
    body = {"action": "redrive", "filter": "queue:mail", "expected": 0}
    assert (await ask("act", "POST", "/actions", json=body)).json()["ids"] == []
    body = {"action": "redrive", "filter": "state:cancelled", "expected": 1}
    [again] = (await ask("act", "POST", "/actions", json=body)).json()["ids"]
    assert (await shop.ajob(int(again))).redrive_of == job.id


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
    assert (await ask("some", "POST", "/actions", json=by_ids)).json()["ids"] == []
    by_filter = {"action": "cancel", "filter": "state:ready", "expected": 1}
    done = (await ask("some", "POST", "/actions", json=by_filter)).json()
    assert done["ids"] == [str(mail)]
    assert (await shop.ajob(other)).state == "ready"


async def test_too_many_are_refused(
    ask: Ask, send: Any, shop: Mutirao, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More than one request may act on."""
    monkeypatch.setattr("mutirao.web.api.bulk.MOST_ACTED_ON", 2)
    for each in range(3):
        await send.aenqueue(each)
    body = {"action": "cancel", "filter": "queue:mail", "expected": 3}
    answer = await ask("act", "POST", "/actions", json=body)
    assert (answer.status_code, answer.json()["type"]) == (409, "urn:mutirao:TooManyJobs")
    assert {each.state for each in await shop.ajobs()} == {"ready"}


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ({"action": "cancel"}, "body"),
        ({"action": "cancel", "filter": "queue:mail"}, "body"),
        ({"action": "cancel", "filter": "queue:mail", "ids": [1], "expected": 1}, "body"),
        ({"action": "cancel", "filter": "", "expected": 1}, None),
        ({"action": "cancel", "ids": []}, "body.ids"),
        ({"action": "cancel", "ids": [1, "x"]}, "body.ids[1]"),
        ({"action": "cancel", "ids": [1, "9999999999999999999"]}, "body.ids[1]"),
        ({"action": "cancel", "ids": [True]}, "body.ids[0]"),
        ({"action": "cancel", "ids": list(range(1, 1_002))}, "body.ids"),
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
