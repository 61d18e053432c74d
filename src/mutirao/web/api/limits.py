"""Limits: how many jobs each lets run, how many do, and how many wait for it."""

from datetime import datetime

import msgspec

from mutirao.model.limits.limits import LimitOrigin, LimitRecord
from mutirao.web.access import Role
from mutirao.web.api.call import Call
from mutirao.web.api.operation import Operation, Reply
from mutirao.web.api.values import copied


class Limit(msgspec.Struct, kw_only=True):
    """A limit and its use, for one value of the argument that it counts by.

    `running` jobs of at most `most`, and `parked` ones that wait for it. `key` is left out where
    whoever asks may see no arguments.
    """

    name: str
    queue: str | None
    task: str | None
    by: str | None
    key: str | None
    most: int
    per: float | None
    burst: int | None
    paused: bool
    running: int
    tokens: float | None
    parked: int
    origin: LimitOrigin
    in_code: bool | None
    created_at: datetime
    changed_at: datetime


class LimitList(msgspec.Struct, kw_only=True):
    """All limits, by name and key."""

    limits: list[Limit]


async def list_limits(call: Call) -> Reply:
    """Answer all limits."""
    found = await call.site.readings.get("limits", call.desk.limits.alist)
    return Reply(LimitList(limits=[_limit(call, each) for each in found]))


def _limit(call: Call, each: LimitRecord) -> Limit:
    key = each.key if each.key is None or call.access.contents else ""
    return copied(Limit, each, key=key and call.site.blanking.text(key))


OPERATIONS = (
    Operation(
        name="list_limits", method="GET", path="/limits", role=Role.READ, run=list_limits,
        does="List the limits, and how far they are used.", answer=LimitList,
    ),
)  # fmt: skip
