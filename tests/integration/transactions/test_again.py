"""What somebody else's locks brought into a circle is tried again, and counted for the doctor."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from mutirao.errors import StoreBusy
from mutirao.model.jobs.records import JobFilter
from mutirao.sql.store.jobs import SqlStore
from mutirao_conformance.kit import due, ended, join, put, take
from tests.integration.transactions.kit import Others
from tests.support.history import opened
from tests.support.waiting import soon

LOCK = "SELECT FROM mutirao_live WHERE id = %s FOR UPDATE"
# In one statement at the server: it looks for a circle once in each wait, `deadlock_timeout` after
# its beginning, and a busy machine would not close the circle by then.
LOCK_ONCE_AWAITED = """
DO $$ BEGIN
    WHILE NOT EXISTS (
        SELECT FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY (pg_blocking_pids(pid))
    ) LOOP PERFORM pg_sleep(0.005); END LOOP;
    PERFORM FROM mutirao_live WHERE id = {} FOR UPDATE;
END $$
"""
RETRIES = "SELECT coalesce(pg_sequence_last_value('mutirao_retries'), 0)"


@pytest.fixture
async def store(pg_url: str, others: Others) -> AsyncIterator[SqlStore]:
    """A store over an empty database, whose server looks for deadlocks before a lock times out."""
    with others.by_default("deadlock_timeout", "500ms"):
        async with opened(pg_url) as store:
            yield store


async def in_a_circle(
    others: Others, ids: list[int], act: Callable[[], Awaitable[object]]
) -> object:
    """Act, and wait for the second job, whose holder waits for the first: the server ends our try.

    Return what came of the act.
    """
    first, second = ids
    with others.session() as other:
        other.execute("SET deadlock_timeout = '100s'")  # so that it is not the one to give up
        other.execute(LOCK, [second])
        acting = asyncio.ensure_future(act())
        await asyncio.to_thread(other.execute, LOCK_ONCE_AWAITED.format(first))
        other.commit()
    return await soon(acting)


async def test_cancelling(store: SqlStore, others: Others) -> None:
    """A command of several statements."""
    ids = await put(store, due(), due())
    assert await in_a_circle(others, ids, lambda: store.cancel(JobFilter())) == ids
    assert others.rows(RETRIES) == [(1,)]


async def test_settling(store: SqlStore, others: Others) -> None:
    """A worker's single statement."""
    ids = await put(store, due(), due())
    worker = await join(store)
    ends = [ended(claim) for claim in await take(store, worker)]
    assert await in_a_circle(others, ids, lambda: store.settle(worker, ends)) == {*ids}
    assert others.rows(RETRIES) == [(1,)]


async def test_enqueueing(store: SqlStore, others: Others) -> None:
    """A caller's call is never made again, and is no deadlock of ours."""
    ids = await put(store, due(), due())

    def lock_both() -> None:
        with store.engines.sync().begin() as caller:
            caller.exec_driver_sql(LOCK, (ids[0],))
            caller.exec_driver_sql(LOCK, (ids[1],))
            store.enqueue([due()], caller)

    with pytest.raises(Exception, match="deadlock"):
        await in_a_circle(others, ids, lambda: asyncio.to_thread(lock_both))
    assert others.rows(RETRIES) == [(0,)]


async def test_giving_up(store: SqlStore, others: Others) -> None:
    """After five tries, of which four were again, the error is the caller's."""
    others.rows(
        "CREATE OR REPLACE FUNCTION again() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN RAISE SQLSTATE '40P01'; END $$"
    )
    ids = await put(store, due())
    others.rows("CREATE TRIGGER again BEFORE DELETE ON mutirao_live EXECUTE FUNCTION again()")
    try:
        with pytest.raises(StoreBusy):
            await store.cancel(JobFilter(ids=tuple(ids)))
    finally:
        others.rows("DROP FUNCTION again CASCADE")
    assert others.rows(RETRIES) == [(4,)]
