"""Limits: how many jobs each lets run, how many do, and how many wait for it."""

from datetime import datetime

import msgspec

from mutirao.model.limits.limits import LimitOrigin, LimitRecord
from mutirao.web.access import Permission
from mutirao.web.api.call import ApiCall
from mutirao.web.api.operation import Answered, Operation
from mutirao.web.api.values import copied

MOST = 1_000


class LimitAnswer(msgspec.Struct, kw_only=True):
    """A limit and its use, for one value of the argument that it counts by.

    `running` jobs of at most `most`, and `parked` ones that wait for it. `key` is left out where
    the caller may see no arguments.
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
    """At most 1,000 limits; those for which most jobs wait come first."""

    limits: list[LimitAnswer]


async def list_limits(call: ApiCall) -> Answered:
    """Answer all limits."""
    found = await call.site.readings.get(
        "limits of the API", lambda: call.client.limits.alist(most=MOST)
    )
    return Answered(LimitList(limits=[_limit(call, each) for each in found]))


def _limit(call: ApiCall, each: LimitRecord) -> LimitAnswer:
    key = each.key if each.key is None or call.access.contents else ""
    return copied(LimitAnswer, each, key=key and call.site.blanking.text(key))


OPERATIONS = (
    Operation(
        name="list_limits", method="GET", path="/limits", role=Permission.READ, run=list_limits,
        does="List the limits, and how far they are used.", answer=LimitList,
    ),
)  # fmt: skip
