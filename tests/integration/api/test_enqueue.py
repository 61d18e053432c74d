"""Jobs are enqueued by the API as by a call in code; a repetition with a key makes none."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any

import pytest

from mutirao import Mutirao
from mutirao.testing import drain
from tests.integration.api.conftest import Ask

BODY = {"task": "send", "args": {"order_id": 7}}


async def test_a_job_is_enqueued(ask: Ask, shop: Mutirao) -> None:
    """With its options; the answer says where it is."""
    body = {
        **BODY,
        "queue": "bulk",
        "delay": 60,
        "expires": 90,
        "tags": ["a"],
        "tenant": "5",
        "key": "k",
    }
    answer = await ask("act", "POST", "/jobs", json=body)
    made = answer.json()
    assert (answer.status_code, made["created"], made["queue"]) == (201, True, "bulk")
    assert answer.headers["location"] == f"/api/v1/jobs/{made['id']}"
    job = await shop.ajob(int(made["id"]))
    assert (job.args, job.tags, job.tenant, job.key) == ({"order_id": 7}, ("a",), "5", "k")
    assert job.state == "scheduled"
    assert job.expires_at is not None
    shown = (await ask("act", "GET", f"/jobs/{made['id']}")).json()["expires_at"]
    assert datetime.fromisoformat(shown) == job.expires_at


async def test_a_repetition_finds_the_job(ask: Ask, shop: Mutirao) -> None:
    """Also at the same moment, in quotes or not, and with the fields in another order."""
    other = {"args": {"order_id": 7}, "task": "send"}
    answers = await asyncio.gather(
        *(
            ask("act", "POST", "/jobs", json=body, headers={"Idempotency-Key": key})
            for body, key in ((BODY, "k-1"), (other, '"k-1"'), (BODY, "k-1"))
        )
    )
    assert sorted(each.status_code for each in answers) == [200, 200, 201]
    assert len({each.json()["id"] for each in answers}) == 1
    assert len(await shop.ajobs()) == 1


@pytest.mark.parametrize(
    "other",
    [{"args": {"order_id": 8}}, {"task": "tick", "args": {}}, {"delay": 1}, {"priority": 1}],
)
async def test_a_key_with_another_body_is_refused(other: dict[str, Any], ask: Ask) -> None:
    """Whatever is different in it, also the task."""
    key = {"Idempotency-Key": "k-1"}
    await ask("act", "POST", "/jobs", json=BODY, headers=key)
    answer = await ask("act", "POST", "/jobs", json={**BODY, **other}, headers=key)
    assert (answer.status_code, answer.json()["type"]) == (422, "urn:mutirao:IdempotencyKeyReused")


async def test_a_key_holds_after_the_end_of_its_job(ask: Ask, shop: Mutirao) -> None:
    """Whoever repeats a request later finds a job that has ended."""
    key = {"Idempotency-Key": "k-1"}
    first = (await ask("act", "POST", "/jobs", json=BODY, headers=key)).json()
    await asyncio.to_thread(drain, shop)
    assert (await shop.ajob(int(first["id"]))).state == "succeeded"
    answer = await ask("act", "POST", "/jobs", json=BODY, headers=key)
    assert (answer.status_code, answer.json()["id"]) == (200, first["id"])


async def test_keys_belong_to_whoever_asks(ask: Ask) -> None:
    """Two programs that choose the same key get a job each."""
    answers = [
        await ask(scope, "POST", "/jobs", json=BODY, headers={"Idempotency-Key": "k-1"})
        for scope in ("act", "admin")
    ]
    assert [each.status_code for each in answers] == [201, 201]


@pytest.mark.parametrize(
    ("body", "status", "name", "place"),
    [
        ({"task": "nothing"}, 422, "UnknownTask", None),
        ({"task": "send", "args": {"order_id": "x"}}, 422, "InvalidArguments", None),
        ({"task": "send", "args": {"self": 1}}, 422, "InvalidArguments", None),
        ({"task": "send", "arguments": {}}, 422, "Unreadable", "body"),
        ({"task": "send", "tags": ["a", 7]}, 422, "Unreadable", "body.tags[1]"),
        ({"task": "send", "run_at": "2031-01-01T00:00:00"}, 422, "Unreadable", "body.run_at"),
        ({"args": {}}, 422, "Unreadable", "body"),
        ({**BODY, "priority": 10**6}, 422, "InvalidJob", None),
        ({**BODY, "run_at": "0001-01-01T00:00:00+14:00"}, 422, "InvalidJob", None),
    ],
)
async def test_what_does_not_fit_is_refused(
    body: dict[str, Any], status: int, name: str, place: str | None, ask: Ask, shop: Mutirao
) -> None:
    """It is named by its class, with the place where the form is wrong; nothing is written."""
    answer = await ask("act", "POST", "/jobs", json=body)
    problem = answer.json()
    assert (answer.status_code, problem["type"]) == (status, f"urn:mutirao:{name}"), problem
    assert problem.get("place") == place
    assert await shop.ajobs() == []


@pytest.mark.parametrize("key", ["", '""', "x" * 201, "\xe9", "a\x7fb"])
async def test_a_header_that_is_no_key_is_refused(key: str, ask: Ask) -> None:
    """An empty one, a long one, and what is not visible."""
    header = {"Idempotency-Key": key.encode("latin-1")}
    answer = await ask("act", "POST", "/jobs", json=BODY, headers=header)
    assert (answer.status_code, answer.json()["place"]) == (422, "header.Idempotency-Key")


async def test_a_job_has_one_key(ask: Ask) -> None:
    """A key in the body and one in the header are refused."""
    header = {"Idempotency-Key": "k-1"}
    answer = await ask("act", "POST", "/jobs", json={**BODY, "key": "k"}, headers=header)
    assert (answer.status_code, answer.json()["place"]) == (422, "body.key")


async def test_a_key_that_is_held_may_be_an_error(ask: Ask) -> None:
    """With `on_conflict` error: 409."""
    body = {**BODY, "key": "k", "on_conflict": "error"}
    await ask("act", "POST", "/jobs", json=body)
    answer = await ask("act", "POST", "/jobs", json=body)
    assert (answer.status_code, answer.json()["type"]) == (409, "urn:mutirao:DuplicateJob")
