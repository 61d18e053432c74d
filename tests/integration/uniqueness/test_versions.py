"""Versions as callers give them, and many of them at once."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from datetime import UTC, datetime, timedelta, timezone
from math import inf, nan
from typing import Any

import pytest

from mutirao import JobState, Mutirao
from mutirao.errors import InvalidJob
from mutirao.model.jobs.job import Claim, OutcomeKind
from mutirao.model.jobs.records import JobFilter
from mutirao.model.keys.uniqueness import Placed
from mutirao.sql.store.jobs import SqlStore
from mutirao.testing import drain
from mutirao_conformance.kit import ended, join, take
from mutirao_conformance.versions import version
from tests.support.waiting import soon

pytestmark = pytest.mark.repeats(
    "postgresql", decided="conformance/src/mutirao_conformance/versions.py"
)

MORNING = datetime(2026, 11, 24, 9, 0, 0, 1, tzinfo=UTC)
KEYS, CALLS = 4, 120


def index(page: int) -> None:
    """What the tests enqueue."""


def test_numbers_and_times(app: Mutirao) -> None:
    """A handle tells that it is outdated, and whose the newer version is."""
    task = app.task(on_conflict="rerun")(index)
    first = task.using(key="7", version=2).enqueue(2)
    late = task.using(key="7", version=1.5).enqueue(1)
    assert (late.how, late.created, late.id) == ("outdated", False, first.id)
    drain(app)
    assert task.using(key="7", version=1).enqueue(1).id == first.id
    newer = task.using(key="7", version=MORNING).enqueue(3)
    assert newer.how == "inserted"
    elsewhere = (MORNING - timedelta(microseconds=1)).astimezone(timezone(timedelta(hours=-3)))
    assert task.using(key="7", version=elsewhere).enqueue(3).how == "outdated"
    # Seconds since 1970, as other programs count them.
    assert task.using(key="7", version=MORNING.timestamp()).enqueue(3).how == "replaced"


def test_forever(app: Mutirao) -> None:
    """A key is held until its job is pruned; a month is a month."""
    task = app.task(unique_for="forever")(index)
    other = app.task(name="other")(index)
    first = task.using(key="7").enqueue(1)
    month = other.using(key="7", unique_for=timedelta(days=31)).enqueue(1)
    drain(app)
    assert task.using(key="7").enqueue(1).id == first.id
    assert other.using(key="7").enqueue(1).id == month.id
    assert app.prune(OutcomeKind.SUCCEEDED, timedelta(0)) == 2
    assert task.using(key="7").enqueue(1).how == "inserted"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"version": 1}, "version say what a key means, and no key is given"),
        ({"key": "k", "version": 1}, "goes with replace or rerun, but on_conflict is keep"),
        ({"key": "k", "version": 1, "on_conflict": "error"}, "goes with replace or rerun"),
        ({"key": "k", "version": "1", "on_conflict": "rerun"}, "version is '1'; give a number"),
        ({"key": "k", "version": True, "on_conflict": "rerun"}, "version is True"),
        (
            {"key": "k", "version": datetime(2026, 1, 1), "on_conflict": "rerun"},  # noqa: DTZ001
            "an aware datetime",
        ),
        ({"key": "k", "version": nan, "on_conflict": "rerun"}, "version is nan; give a number"),
        ({"key": "k", "version": inf, "on_conflict": "rerun"}, "version is inf"),
        ({"key": "k", "version": 2**63, "on_conflict": "rerun"}, "from -2.63 to 2.63 - 1"),
        ({"key": "k", "unique_for": "ever"}, "unique_for is 'ever'; give seconds"),
        ({"key": "k", "unique_for": 1e11}, "or .forever."),
    ],
)
def test_bad_input(app: Mutirao, options: dict[str, Any], message: str) -> None:
    """It is refused at the caller, with what to give; nothing is written."""
    task = app.task(index)
    with pytest.raises(InvalidJob, match=message):
        task.using(**options).enqueue(7)
    assert app.jobs() == []


def test_a_worker_leaves_stale_retries(app: Mutirao) -> None:
    """End to end: what fails while a newer one waits is not tried again."""
    ran: list[int] = []

    @app.task(on_conflict="rerun")
    def step(n: int) -> None:
        ran.append(n)
        if n == 1:
            assert step.using(key="k", version=3).enqueue(3).how == "rerun"
            assert step.using(key="k", version=2).enqueue(2).how == "outdated"
            raise ValueError(n)

    first = step.using(key="k", version=1).enqueue(1)
    drain(app)
    assert ran == [1, 3]
    assert app.job(first.id).error_type == "Superseded"


async def test_a_race_with_workers(url: str) -> None:
    """What runs of a key is never older than what ran before; the newest is the last."""
    stores = [SqlStore(url) for _ in range(4)]
    numbers = random.Random(7).sample(range(1, CALLS + 1), CALLS)
    jobs = [version(n, key=f"k{n % KEYS}", n=n) for n in numbers]
    done, ran = asyncio.Event(), defaultdict[str, list[int]](list)
    working = [asyncio.create_task(_work(store, done, ran)) for store in stores[:2]]
    received: list[Placed] = []
    try:
        for n in range(0, CALLS, 4):
            calls = [stores[i].aenqueue([jobs[n + i]]) for i in range(4)]
            received += [id for [id] in await asyncio.gather(*calls) if isinstance(id, Placed)]
        done.set()
        await soon(asyncio.gather(*working), deadline=60)
        assert await stores[0].jobs(JobFilter(state=JobState.READY)) == []
        written = len(await stores[0].jobs(JobFilter(limit=None)))
    finally:
        for task in working:
            task.cancel()
        for store in stores:
            await store.close()
    assert written == sum(id.written for id in received)
    for key in range(KEYS):
        assert ran[f"k{key}"] == sorted(ran[f"k{key}"])
        assert ran[f"k{key}"][-1] == max(n for n in numbers if n % KEYS == key)


async def _work(store: SqlStore, done: asyncio.Event, ran: dict[str, list[int]]) -> None:
    """Take what is due, let each fail at first, until nothing is left."""
    worker = await join(store, expiry=1e6, now=None)
    while True:
        over = done.is_set()
        claims: list[Claim] = await take(store, worker, 9, now=datetime.now(UTC))
        for claim in claims:
            ran[claim.key or ""].append(int(claim.args.strip('{"n: }')))
            kind = OutcomeKind.RETRIED if claim.attempt == 1 else OutcomeKind.SUCCEEDED
            assert await store.settle(worker, [ended(claim, kind, after=0.0)]) == {claim.id}
        if over and not claims and not await store.lanes(None):
            return
        await asyncio.sleep(0)
