"""A change of waiting jobs and a claim that come at the same moment."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from mutirao.model.jobs.change import Change
from mutirao.model.jobs.job import JobState
from mutirao.model.jobs.records import JobFilter
from mutirao.model.limits.limits import Limit
from mutirao.sql.store.jobs import SqlStore
from mutirao_conformance.kit import NOW, due, finish, ids_of, join, put, take, take_one
from tests.integration.transactions.kit import Others
from tests.support.history import opened
from tests.support.waiting import soon

NEW = Change(priority=-1, queue="q")


@pytest.fixture
async def store(pg_url: str) -> AsyncIterator[SqlStore]:
    """A store on PostgreSQL: only there do two of them get in each other's way."""
    async with opened(pg_url) as store:
        yield store


async def test_the_claim_comes_first(store: SqlStore, others: Others) -> None:
    """The change waits for it, and leaves alone what runs by then."""
    ids = await put(store, due(), due())
    worker = await join(store)
    with others.session() as claiming:
        claiming.execute(
            "UPDATE mutirao_live SET worker = %s, run = 1, attempt = 1, claimed_at = now()"
            " WHERE id = %s",
            [worker, ids[0]],
        )
        changing = asyncio.ensure_future(store.change(JobFilter(), NEW, now=NOW))
        await others.until_someone_waits()
        claiming.commit()
        assert await soon(changing) == [ids[1]]
    running = await store.job(ids[0])
    assert (running.state, running.queue, running.priority) == (JobState.RUNNING, "default", 0)


async def test_the_change_comes_first(store: SqlStore, others: Others) -> None:
    """A claim passes over what is being changed, and finds it where it is afterwards."""
    ids = await put(store, due(), due(), due())
    worker = await join(store)
    with others.session() as last:
        last.execute("SELECT FROM mutirao_live WHERE id = %s FOR UPDATE", [ids[2]])
        changing = asyncio.ensure_future(store.change(JobFilter(), NEW, now=NOW))
        await others.until_someone_waits()
        assert await take(store, worker) == []
        last.rollback()
        assert await soon(changing) == ids
    claims = await take(store, worker)
    assert ids_of(claims) == ids
    assert {(claim.queue, claim.priority) for claim in claims} == {("q", -1)}


async def test_looked_at_before_and_parked_after(store: SqlStore, others: Others) -> None:
    """A look without locks parks nothing behind the limit of a queue that it has left since."""
    rule = Limit(1).on(queue="default")
    await store.limits.put(rule, now=NOW)
    ids = await put(store, due(), due(), due())
    worker = await join(store)
    running = await take_one(store, worker)
    [[counter]] = others.rows("SELECT id FROM mutirao_counter")
    assert await store.change(JobFilter(ids=(ids[1],)), NEW, now=NOW) == [ids[1]]
    park = f"SELECT mutirao_park(ARRAY[{ids[1]}, {ids[2]}]::bigint[], ARRAY[{counter}, {counter}])"
    others.rows(park)
    [moved, stayed] = [await store.job(id) for id in ids[1:]]
    assert (moved.state, stayed.state) == (JobState.READY, JobState.BLOCKED)
    assert (await take_one(store, worker)).id == ids[1]
    await finish(store, worker, [running])
    assert (await take_one(store, worker)).id == ids[2]
