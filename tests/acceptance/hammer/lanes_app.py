"""The application of `lanes`: jobs in fifty lanes, some within limits, some with keys."""

from __future__ import annotations

import os
from random import Random

from mutirao import Limit, Mutirao, NewJob
from mutirao.tasks.options import Conflict

QUEUES = tuple(f"queue-{number}" for number in range(10))
PRIORITIES = range(5)
TENANTS = 20
KEYS = 2_000

app = Mutirao(os.environ.get("HAMMER_DATABASE", "sqlite:///hammer.db"))


@app.task
async def plain(number: int) -> None:
    """Do nothing."""


@app.task(limit=[Limit(40), Limit(4, by="tenant")])
async def limited(tenant: int) -> None:
    """Be one of few at once, and of fewer of its tenant."""


@app.task(limit=Limit(40))
async def keyed(number: int) -> None:
    """Be one of its key, and one of few at once."""


def any_job(dice: Random) -> NewJob:
    """Return a job for one of the lanes: half of them are plain, the others limited or keyed."""
    kind = dice.random()
    if kind < 0.25:
        return _keyed(dice)
    queue, priority = dice.choice(QUEUES), dice.choice(PRIORITIES)
    if kind < 0.5:
        return limited.using(queue=queue, priority=priority).job(dice.randrange(TENANTS))
    return plain.using(queue=queue, priority=priority).job(dice.randrange(1_000))


def _keyed(dice: Random) -> NewJob:
    conflict: Conflict = "keep" if dice.random() < 0.7 else "replace"
    call = keyed.using(
        key=f"key-{dice.randrange(KEYS)}",
        on_conflict=conflict,
        queue=dice.choice(QUEUES),
        priority=dice.choice(PRIORITIES),
    )
    return call.job(dice.randrange(1_000))
