"""Moments in which transactions met, and the database gave one of them up: they meet no more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from mutirao.model.jobs.job import OutcomeKind
from mutirao.model.jobs.records import JobFilter
from mutirao.model.keys.supersede import Supersede
from mutirao.model.keys.uniqueness import Unique
from mutirao_conformance.kit import FAR_AHEAD, NOW, ended, join, put, take_one
from tests.integration.transactions.kit import Others
from tests.integration.transactions.locks import holding
from tests.integration.transactions.operations import (
    COUNTER,
    LIVE,
    OPERATIONS,
    RERUN,
    RULE,
    Scene,
    of,
)
from tests.support.history import opened
from tests.support.waiting import soon

IN_ORDER = Unique(supersede=Supersede(by="kind", rules={}))
AT_GATES = """
SELECT l.id FROM mutirao_live l JOIN mutirao_step s ON s.job = l.id WHERE s.gate IS NOT NULL
ORDER BY l.id FOR UPDATE OF l
"""


@pytest.fixture
async def scene(pg_url: str, others: Others) -> AsyncIterator[Scene]:
    """A scene in an empty database."""
    async with opened(pg_url) as store:
        yield Scene(store, others)


async def test_a_limit_and_the_end_of_a_redriven_step(scene: Scene) -> None:
    """Who changes what a limit covers leaves steps at gates to those who have their graphs.

    A redriven step has a greater id than the steps behind it: whoever ends it locks these after it.
    """
    await OPERATIONS["settle redriven steps"].prepare(scene)
    with scene.others.session() as other:
        assert other.execute(AT_GATES).fetchall()
        await soon(scene.store.limits.put(replace(RULE, by="kind"), now=NOW))


async def test_an_overtaken_retry_and_claims(scene: Scene) -> None:
    """It locks the counters of what it ends, and not then those of all that others wait for."""
    await OPERATIONS["retry keyed"].prepare(scene)
    last = ended(scene.claims[-1], OutcomeKind.RETRIED, after=1.0)
    with holding(scene.others) as holder:
        holder.middle(COUNTER)
        await soon(scene.store.settle(scene.worker, [last], now=NOW))
    job = await scene.store.job(scene.claims[-1].id)
    assert job.error_type == "Superseded"


async def test_a_commit_and_the_job_before_a_cancelled_one(scene: Scene) -> None:
    """Whoever commits a job that supersedes locks the one before a cancelled one in order, too."""
    store = scene.store
    await put(store, of("a", key="k", unique=IN_ORDER))
    first = await take_one(store, await join(store))
    waiting = await put(store, *(of("a", key="k", unique=IN_ORDER) for _ in range(2)))
    [other] = await put(store, of("a", key="z", unique=RERUN, run_at=FAR_AHEAD))
    with scene.others.session() as caller, holding(scene.others) as holder:
        store.enqueue([of("a", key="k", unique=IN_ORDER)], caller)
        store.enqueue([of("a", key="z", unique=RERUN)], caller)
        await store.cancel(JobFilter(ids=tuple(waiting)), now=NOW)
        holder.middle(LIVE, [(first.id,)])
        committing = asyncio.ensure_future(asyncio.to_thread(caller.commit))
        await scene.others.until_someone_waits()
        locked = holder.others().get(LIVE, [])
        holder.let_go()
        await soon(committing)
    assert (other,) not in locked
