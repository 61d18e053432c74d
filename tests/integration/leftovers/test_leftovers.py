"""What changes by hand leave behind is counted by the doctor, and mended by a worker."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from sqlalchemy import text

from mutirao import chain
from mutirao.model.jobs.job import JobState
from mutirao.model.jobs.records import JobFilter
from mutirao.sql.statements import doctor
from mutirao.sql.store.jobs import SqlStore
from mutirao_conformance.graphs import a, write_graph
from mutirao_conformance.kit import NOW, due, join, put, take
from mutirao_conformance.limits import limited
from mutirao_conformance.supersede import activity
from mutirao_conformance.uniqueness import keyed
from tests.support.history import opened


@pytest.fixture
async def store(url: str) -> AsyncIterator[SqlStore]:
    """A store over an empty database."""
    async with opened(url) as store:
        yield store


async def do(store: SqlStore, statement: str) -> None:
    """Change the tables behind the store's back."""
    with store.engines.sync().begin() as connection:
        connection.execute(text(statement))


async def left_behind(store: SqlStore) -> list[str]:
    """Return the doctor's findings of leftovers."""
    findings = await doctor.examine(store.engines, {"send"})
    return [each.found for each in findings if each.about == "leftovers"]


async def busy(store: SqlStore) -> list[int]:
    """Let jobs run, and others wait: for a key, for another one of it, for a limit, at a gate."""
    worker = await join(store)
    ids = await put(store, keyed("keep"), activity("Create"))
    await take(store, worker)
    ids += await put(store, keyed("rerun"), activity("Update"), activity("Delete"))
    await limited(store, 1)
    ids += await put(store, due(), due())
    await take(store, worker)
    await take(store, worker)
    return ids + await write_graph(store, chain(a(), a()))


async def test_nothing(store: SqlStore) -> None:
    """While jobs wait for others there is nothing to mend."""
    await busy(store)
    assert await store.mend(now=NOW) == {}
    assert await left_behind(store) == ["nothing was left behind"]


# What somebody does by hand; there is no job 1000000.
KINDS = {
    "live rows of jobs that are no more": """
        INSERT INTO mutirao_live (id, queue, priority, run_at)
        SELECT 1000000, queue, priority, run_at FROM mutirao_live LIMIT 1""",
    "rows of jobs that waited for a limit and have ended": """
        INSERT INTO mutirao_parked (job, counter, priority, run_at)
        SELECT 1000000, 1, priority, run_at FROM mutirao_live LIMIT 1""",
    "keys of jobs that are no more": """
        INSERT INTO mutirao_key (scope, task, queue, key, job, since)
        SELECT 's', '', '', 'x', 1000000, since FROM mutirao_key LIMIT 1""",
    "rows of jobs that waited for another one of their key and have ended": """
        DELETE FROM mutirao_live WHERE id IN (
            SELECT job FROM mutirao_supersede_wait UNION SELECT after FROM mutirao_supersede_wait
        )""",
    "supersede rows of jobs that do not exist any more": """
        INSERT INTO mutirao_supersede_last (scope, task, queue, key, last)
        VALUES ('s', '', '', 'x', 1000000)""",
}


@pytest.mark.parametrize("kind", KINDS)
async def test_rows(store: SqlStore, kind: str) -> None:
    """They are removed, and what others need is left."""
    ids = await busy(store)
    await do(store, KINDS[kind])
    assert await left_behind(store) == [f"1 {kind}"]
    assert await store.mend(now=NOW) == {kind: 1}
    assert await left_behind(store) == ["nothing was left behind"]
    blocked = {job.id for job in await store.jobs(JobFilter(state=JobState.BLOCKED))}
    assert len(blocked & set(ids)) >= 4


DELETIONS = [
    "DELETE FROM mutirao_key",
    "DELETE FROM mutirao_supersede_wait",
    "DELETE FROM mutirao_parked",
    "DELETE FROM mutirao_gate",
]


@pytest.mark.parametrize("deletion", DELETIONS)
async def test_jobs(store: SqlStore, deletion: str) -> None:
    """Whoever waits for nothing any more is due."""
    await busy(store)
    before = {job.id for job in await store.jobs(JobFilter(state=JobState.READY))}
    await do(store, deletion)
    mended = await store.mend(now=NOW)
    assert mended["jobs that are blocked by nothing"] > 0
    after = {job.id for job in await store.jobs(JobFilter(state=JobState.READY))}
    assert len(after - before) == mended["jobs that are blocked by nothing"]
    assert await left_behind(store) == ["nothing was left behind"]
