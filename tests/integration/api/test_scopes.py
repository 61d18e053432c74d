"""Every operation, as everybody: who may not is refused before anything is read or done."""

from __future__ import annotations

import httpx2
import pytest

from mutirao import Mutirao
from mutirao.model.audit.actions import Action, ActionKind
from mutirao.web.access import Permission
from mutirao.web.api.operation import Operation
from mutirao.web.api.operations import OPERATIONS
from tests.integration.api.conftest import Ask

ROLES = {"read": Permission.READ, "act": Permission.ACT, "admin": Permission.ADMIN}
# A body with which each does something, where one is needed.
BODIES = {
    "enqueue": {"task": "tick"},
    "act": {"action": "cancel", "ids": ["1"]},
    "pause_schedule": {},
}
each_operation = pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.name)


def _path(operation: Operation) -> str:
    name = "night%2Fly" if "schedule" in operation.name else "mail"
    return operation.path.replace("{id}", "1").replace("{name}", name)


@each_operation
@pytest.mark.parametrize("scope", ROLES)
async def test_a_scope_may_what_it_says(
    operation: Operation, scope: str, ask: Ask, shop: Mutirao, tick: object
) -> None:
    """A scope does all that needs it or less; anything else is refused, and nothing is changed."""
    await shop.task_named("tick").aenqueue()
    await shop.actions.arun(Action(ActionKind.RETRY), ids=(1,), by="ana")
    if operation.name == "resume_queue":
        await shop.apause(queue="mail")
    before = await _state(shop)
    answer = await ask(scope, operation.method, _path(operation), json=BODIES.get(operation.name))
    if ROLES[scope] >= operation.role:
        assert answer.status_code in (_STATUS.get(operation.name), *operation.statuses)
        assert (await _state(shop) != before) == (
            operation.acts and operation.name not in _NO_CHANGE
        )
    else:
        assert answer.status_code == 403
        assert answer.json()["type"] == "urn:mutirao:Refused"
        assert await _state(shop) == before


_NO_CHANGE = {"stop_action"}  # it has ended
_STATUS = {"stop_action": 409}


@each_operation
async def test_nobody_may_anything(
    operation: Operation, nobody: httpx2.AsyncClient, shop: Mutirao
) -> None:
    """Without a token, or with one that nobody has: 401, and nothing is changed."""
    await shop.task_named("tick").aenqueue()
    before = await _state(shop)
    for header in ({}, {"authorization": "Bearer read-token-of-a-tesT"}, {"authorization": "?"}):
        answer = await nobody.request(
            operation.method, _path(operation), headers=header,
            json=BODIES.get(operation.name) or {},
        )  # fmt: skip
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"].startswith("Bearer ")
        assert answer.headers["content-type"] == "application/problem+json"
    assert await _state(shop) == before


@each_operation
async def test_who_sees_some_jobs_sees_and_does_nothing_else(
    operation: Operation, ask: Ask, shop: Mutirao
) -> None:
    """With a filter, what is about all jobs is refused, and other jobs are not there."""
    await shop.task_named("tick").aenqueue()
    await shop.actions.arun(Action(ActionKind.RETRY), ids=(1,), by="ana")
    before = await _state(shop)
    answer = await ask("some", operation.method, _path(operation), json=BODIES.get(operation.name))
    if operation.whole:
        assert answer.status_code == 403
    elif "{id}" in operation.path or operation.name == "act":
        assert answer.status_code == 404
    else:
        assert answer.status_code == 200
        assert '"1"' not in answer.text
    assert await _state(shop) == before


async def _state(shop: Mutirao) -> list[object]:
    """Return all that operations may change."""
    return [
        await shop.ajobs(),
        await shop.limits.alist(),
        await shop.schedules.alist(),
        await shop.actions.alist(),
    ]
