"""The application of `lanes`: jobs in fifty lanes, some within limits, some with keys."""

from __future__ import annotations

import os
from collections.abc import Iterator
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


def first_jobs(dice: Random, count: int) -> Iterator[NewJob]:
    """Yield so many jobs that can all be there at once: one of each key, the others without."""
    keys = range(min(KEYS, count // 4))
    yield from (_keyed(dice, key) for key in keys)
    yield from (_without_key(dice) for _ in range(count - len(keys)))


def any_job(dice: Random) -> NewJob:
    """Return a job for one of the lanes: a quarter of them have keys, which others may have."""
    return _keyed(dice, dice.randrange(KEYS)) if dice.random() < 0.25 else _without_key(dice)


def _keyed(dice: Random, key: int) -> NewJob:
    conflict: Conflict = "keep" if dice.random() < 0.7 else "replace"
    queue, priority = _lane(dice)
    call = keyed.using(key=f"key-{key}", on_conflict=conflict, queue=queue, priority=priority)
    return call.job(dice.randrange(1_000))


def _without_key(dice: Random) -> NewJob:
    queue, priority = _lane(dice)
    if dice.random() < 0.5:
        return limited.using(queue=queue, priority=priority).job(dice.randrange(TENANTS))
    return plain.using(queue=queue, priority=priority).job(dice.randrange(1_000))


def _lane(dice: Random) -> tuple[str, int]:
    return dice.choice(QUEUES), dice.choice(PRIORITIES)
