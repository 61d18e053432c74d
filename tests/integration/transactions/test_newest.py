"""The newest job of a key, at the moments that decide: others commit, or fail, in between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from mutirao.model.jobs.job import JobState, OutcomeKind
from mutirao.model.jobs.records import JobFilter
from mutirao.model.keys.uniqueness import Placed
from mutirao.sql.store.jobs import SqlStore
from mutirao_conformance.kit import ended, finish, join, take_one
from mutirao_conformance.repeated import droppable, sent
from mutirao_conformance.uniqueness import keyed, live_jobs, placed, state_of
from mutirao_conformance.versions import version
from tests.integration.transactions.kit import Others
from tests.support.history import opened
from tests.support.waiting import soon


@pytest.fixture
async def pg(pg_url: str) -> AsyncIterator[SqlStore]:
    """A store over an empty database on PostgreSQL."""
    async with opened(pg_url) as store:
        yield store


@pytest.mark.parametrize("ends", ["commit", "rollback"])
async def test_while_the_newer_one_is_not_committed(
    pg: SqlStore, others: Others, ends: str
) -> None:
    """The older one waits, and is outdated after a commit; after a rollback there is no newer."""
    with others.session() as caller:
        [newer] = pg.enqueue([version(8)], caller)
        older = asyncio.create_task(placed(pg, version(7)))
        await others.until_someone_waits()
        getattr(caller, ends)()
        id, how = await older
    assert how == ("outdated" if ends == "commit" else "inserted")
    assert (id == newer) == (ends == "commit")
    assert await live_jobs(pg) == [id]


async def test_while_the_older_one_is_not_committed(pg: SqlStore, others: Others) -> None:
    """The newer one waits, and takes its place."""
    with others.session() as caller:
        pg.enqueue([version(7)], caller)
        newer = asyncio.create_task(placed(pg, version(8)))
        await others.until_someone_waits()
        caller.commit()
        id, how = await newer
    assert how == "replaced"
    assert await live_jobs(pg) == [id]


async def test_a_failure_before_the_commit(pg: SqlStore, others: Others) -> None:
    """The caller's commit finds the older one between two attempts, and takes its place."""
    worker = await join(pg)
    first, _ = await placed(pg, keyed("rerun"))
    failed = ended(await take_one(pg, worker), OutcomeKind.RETRIED, after=1e6)
    with others.session() as caller:
        [newest] = pg.enqueue([keyed("rerun")], caller)
        assert isinstance(newest, Placed)
        assert newest.how == "rerun"
        assert await soon(pg.settle(worker, [failed])) == {first}
        caller.commit()
    assert await live_jobs(pg) == [newest]
    assert await state_of(pg, first) == (JobState.CANCELLED, f"replaced by job {newest}")
    assert (await take_one(pg, worker)).id == newest


async def test_a_failure_during_the_commit(pg: SqlStore, others: Others) -> None:
    """It is settled when the commit is over, and then knows who waits."""
    worker = await join(pg)
    first, _ = await placed(pg, keyed("rerun"))
    failed = ended(await take_one(pg, worker), OutcomeKind.RETRIED, after=1e6)
    with others.session() as caller:
        [newest] = pg.enqueue([keyed("rerun")], caller)
        caller.execute("SET CONSTRAINTS ALL IMMEDIATE")  # what the commit does first
        settling = asyncio.create_task(pg.settle(worker, [failed]))
        await others.until_someone_waits()
        caller.commit()
        assert await soon(settling) == {first}
    assert await live_jobs(pg) == [newest]
    assert await state_of(pg, first) == (JobState.CANCELLED, f"superseded by job {newest}")
    assert (await take_one(pg, worker)).id == newest


@pytest.mark.parametrize("kind", [None, OutcomeKind.SUCCEEDED, OutcomeKind.DEAD])
async def test_what_was_dropped_is_taken_before_the_commit(
    pg: SqlStore, others: Others, kind: OutcomeKind | None
) -> None:
    """Both are sent, then; and what had been done before is known no more."""
    worker = await join(pg)
    await sent(pg, worker, droppable("Update", "a"))
    await placed(pg, droppable("Update", "b"))
    with others.session() as caller:
        [back] = pg.enqueue([droppable("Update", "a")], caller)
        assert isinstance(back, Placed)
        assert back.how == "superseded"
        claim = await take_one(pg, worker)
        if kind is not None:
            await finish(pg, worker, [claim], kind)
        caller.commit()
    assert await live_jobs(pg) == [*([] if kind else [claim.id]), back]
    await pg.cancel(JobFilter(ids=(int(back),)))
    if kind is None:
        await finish(pg, worker, [claim])
    assert (await placed(pg, droppable("Update", "a")))[1] == "inserted"


@pytest.mark.parametrize("ends", ["commit", "rollback"])
async def test_a_repetition_of_what_is_not_committed(
    pg: SqlStore, others: Others, ends: str
) -> None:
    """It waits for the transaction that changes what is known, and decides then."""
    worker = await join(pg)
    first = await sent(pg, worker, droppable("Update", "a"))
    with others.session() as caller:
        pg.enqueue([droppable("Update", "b")], caller)
        again = asyncio.create_task(placed(pg, droppable("Update", "a")))
        await others.until_someone_waits()
        getattr(caller, ends)()
        id, how = await again
    assert how == ("superseded" if ends == "commit" else "repeated")
    assert (id == first) == (ends == "rollback")
    assert await live_jobs(pg) == []
