"""The application that is hammered: few keys, few tenants, and tasks of every kind that locks rows.

Handlers take milliseconds, so that what is locked is locked by claims, settlements and their own
transactions. Some attempts fail, wait, die or enqueue more.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterable

from mutirao import Cancel, Dead, DeadJob, Job, Limit, Mutirao, NewJob, Retry, Snooze, Supersede
from mutirao.tasks.options import Conflict
from tests.faults.kit.handlers import Stumbled

KEYS = tuple(f"key-{number:02}" for number in range(12))
TENANTS = ("ann", "bob", "eve")
KINDS = ("new", "change", "drop", "send")
CONFLICTS: tuple[Conflict, ...] = ("keep", "replace", "rerun")
QUEUES = ("work", "aside")
MOST_LATER = 1.0  # seconds that a job is put off
RETRY = Retry.fixed(max_attempts=1_000, interval=0.2)
RULE = Supersede(
    by="kind",
    rules={
        ("new", "change"): "merge",
        ("new", "drop"): "neither",
        ("change", "change"): "newer",
        ("change", "drop"): "newer",
    },
)

app = Mutirao(os.environ.get("HAMMER_DATABASE", "sqlite:///hammer.db"))
app.limit(Limit(30), queue="aside")


def stumble() -> None:
    """Fail, wait, die or be cancelled sometimes."""
    chance = random.random()
    if chance < 0.06:
        raise Stumbled
    if chance < 0.09:
        raise Snooze(random.uniform(0, MOST_LATER))
    if chance < 0.11:
        raise Dead("as it happens")
    if chance < 0.12:
        raise Cancel("as it happens")


@app.task(queue="work", retry=RETRY)
async def plain() -> None:
    """Do nothing, or fail at it."""
    stumble()


@app.task(queue="work", retry=RETRY)
async def keyed(number: int) -> None:
    """Be one of its key."""
    stumble()


@app.task(queue="work", retry=RETRY, limit=Limit(6))
async def keyed_and_limited(number: int) -> None:
    """Be one of its key, and one of few at once."""
    stumble()


@app.task(queue="work", retry=RETRY, supersede=RULE)
async def superseded(kind: str, number: int) -> None:
    """Come after the older ones of its key."""
    stumble()


@app.task(queue="aside", retry=RETRY, limit=[Limit(8), Limit(4, by="tenant")])
async def limited(tenant: str) -> None:
    """Be one of few at once, and of fewer of its tenant."""
    stumble()


@app.task(queue="aside", retry=RETRY, limit=Limit(100, per=1, burst=10))
async def rated(tenant: str) -> None:
    """Be one of few in a time."""
    stumble()


@app.task(queue="aside", retry=RETRY, fair_by="tenant")
async def in_turn(tenant: str) -> None:
    """Take turns with other tenants."""
    stumble()


@app.task(queue="work", retry=RETRY, fair_by="tenant", limit=Limit(4, by="tenant"))
async def limited_in_turn(tenant: str) -> None:
    """Take turns, and be one of few of its tenant."""
    stumble()


@app.task(queue="work", retry=RETRY, keep_result=5)
async def step(number: int) -> int:
    """Be a step of a graph."""
    stumble()
    return number


@app.task(queue="work", retry=RETRY)
async def undo(number: int) -> None:
    """Undo a step."""


@app.task(queue="work", retry=RETRY)
async def write(job: Job) -> None:
    """Enqueue jobs with keys, and complete in the same commit; in a coroutine."""
    async with job.transaction(session=False) as connection:
        for each in followers():
            await app.asubmit(each, connection)
        stumble()


@app.task(queue="work", retry=RETRY)
def write_in_thread(job: Job) -> None:
    """Enqueue jobs with keys, and complete in the same commit; in a thread."""
    with job.transaction(session=False) as connection:
        for each in followers():
            app.submit(each, connection)
        stumble()


@app.task(queue="work", retry=RETRY)
async def write_batch(job: Job) -> None:
    """Enqueue jobs with keys in one call, in any order, and complete in the same commit."""
    async with job.transaction(session=False) as connection:
        found = followers()
        await app.aenqueue_many(random.sample(found, len(found)), connection)


@app.task(queue="work", retry=Retry.never())
async def doomed(tenant: str) -> None:
    """Die, to be told of and redriven."""
    raise Stumbled


@doomed.on_dead
async def bury(dead: DeadJob) -> None:
    """Run after a death."""


def followers() -> list[NewJob]:
    """Return the jobs that a handler enqueues, in the order in which keys are taken."""
    dice = random.Random()
    return in_order(any_with_key(dice, key) for key in some_keys(dice, 2, 4))


def some_keys(dice: random.Random, least: int, most: int) -> list[str]:
    """Return some of the keys, in any order."""
    return dice.sample(KEYS, dice.randint(least, most))


def with_key(dice: random.Random, key: str) -> NewJob:
    """Return a job with a key, for any conflict."""
    task = dice.choice((keyed, keyed, keyed_and_limited))
    conflict = dice.choice(CONFLICTS)
    window = 1.0 if conflict == "keep" and dice.random() < 0.2 else None
    call = task.using(key=key, on_conflict=conflict, unique_for=window, delay=later(dice))
    return call.job(dice.randrange(1_000))


def superseding(dice: random.Random, key: str) -> NewJob:
    """Return a job that supersedes others of its key."""
    call = superseded.using(key=key, delay=later(dice))
    return call.job(dice.choice(KINDS), dice.randrange(1_000))


def any_with_key(dice: random.Random, key: str) -> NewJob:
    """Return a job with a key, which supersedes others or not."""
    return dice.choice((with_key, with_key, superseding))(dice, key)


def without_key(dice: random.Random, threads: bool) -> NewJob:
    """Return a job that is plain, limited, fair, or enqueues others with keys.

    `threads`: the driver has a synchronous form.
    """
    if dice.random() < 0.4:
        return _without_arguments(dice, threads)
    task = dice.choice((limited, rated, in_turn, limited_in_turn, doomed))
    tenant = dice.choice(TENANTS)
    return task.using(delay=later(dice), tags=[tenant], priority=dice.randint(0, 1)).job(tenant)


def _without_arguments(dice: random.Random, threads: bool) -> NewJob:
    task = dice.choice((plain, write, write_batch))
    if task is write and threads and dice.random() < 0.5:
        return write_in_thread.using(delay=later(dice)).job()
    return task.using(delay=later(dice)).job()


def in_order(jobs: Iterable[NewJob]) -> list[NewJob]:
    """Return jobs in the order in which everybody takes their keys."""
    return sorted(jobs, key=_name)


def _name(job: NewJob) -> tuple[str, ...]:
    return job.unique.name(job.task, job.queue, job.key) if job.unique and job.key else ()


def later(dice: random.Random) -> float | None:
    """Return no delay, mostly."""
    return dice.uniform(0, MOST_LATER) if dice.random() < 0.3 else None
