"""The completion of a job and the COMMIT travel together: neither holds without the other."""

from __future__ import annotations

import psycopg
import pytest

from mutirao.errors import StoreError, StoreRefused
from mutirao.model.jobs.job import Gives, JobState
from mutirao.model.jobs.records import JobFilter
from mutirao.sql.store.jobs import SqlStore
from mutirao_conformance.kit import due, job_of, join, put, take_one
from mutirao_conformance.transactions import Handler, Watched

TABLES = """
CREATE TABLE shelf (id integer PRIMARY KEY);
CREATE TABLE book (shelf integer REFERENCES shelf DEFERRABLE INITIALLY DEFERRED)
"""
HOMELESS = "INSERT INTO book VALUES (7)"
each_kind = pytest.mark.parametrize("handler", ["function", "coroutine"])
GIVES: Gives = "driver"


async def say(
    store: SqlStore, handler: Handler, sql: str, attempt: Watched, *, left: bool = False
) -> None:
    """Enqueue and claim a job, say `sql` in its transaction, and complete it.

    `left`: a block of psycopg's own is begun, and not left.
    """
    await put(store, due())
    claim = await take_one(store, await join(store, now=None))
    transaction = store.transaction(job_of(claim), attempt, gives=GIVES)
    if handler == "function":
        with transaction as own:
            block = own.transaction()  # which is left where nobody has it any more
            if left:
                block.__enter__()
            own.execute(sql)
    else:
        async with transaction as own:
            block = own.transaction()
            if left:
                await block.__aenter__()
            await own.execute(sql)


@each_kind
async def test_a_commit_that_is_refused(migrated_postgresql_url: str, handler: Handler) -> None:
    """A constraint that is checked at the commit leaves the job as it was; so the next one goes."""
    store = SqlStore(migrated_postgresql_url, pool_size=1)
    plain = migrated_postgresql_url.replace("+psycopg", "")
    with psycopg.connect(plain, autocommit=True) as outside:
        outside.execute(TABLES)
        attempt = Watched()
        with pytest.raises(StoreRefused, match="book"):
            await say(store, handler, HOMELESS, attempt)
        assert attempt.times_settled == 0
        await say(store, handler, "INSERT INTO shelf VALUES (7)", attempt)
        await say(store, handler, HOMELESS, attempt)
        states = [job.state for job in await store.jobs(JobFilter())]
        assert states == [JobState.SUCCEEDED, JobState.SUCCEEDED, JobState.RUNNING]
        found = outside.execute("SELECT (SELECT count(*) FROM shelf), (SELECT count(*) FROM book)")
        assert found.fetchall() == [(1, 1)]
    await store.close()


@each_kind
async def test_what_the_driver_forgets_is_prepared_again(
    migrated_postgresql_url: str, handler: Handler
) -> None:
    """psycopg has the server forget what is prepared, after a rollback or a DROP."""
    store = SqlStore(migrated_postgresql_url, pool_size=1)
    attempt = Watched()
    for number in range(3):
        await say(store, handler, f"CREATE TABLE t{number} (id integer)", attempt)
        with pytest.raises((psycopg.Error, StoreRefused)):
            await say(store, handler, f"SELECT 1 / ({number} - {number})", attempt)
    await say(store, handler, "DROP TABLE t1", attempt)
    await say(store, handler, "DEALLOCATE ALL", attempt)
    assert attempt.times_settled == 5
    await store.close()


@each_kind
async def test_a_block_of_the_driver_that_is_left_open(
    migrated_postgresql_url: str, handler: Handler
) -> None:
    """psycopg refuses to commit then, so nothing is; the connection is lent again."""
    store = SqlStore(migrated_postgresql_url, pool_size=1)
    attempt = Watched()
    with pytest.raises(StoreError, match="within a Transaction context"):
        await say(store, handler, "CREATE TABLE never (id integer)", attempt, left=True)
    assert attempt.times_settled == 0
    await say(store, handler, "CREATE TABLE never (id integer)", attempt)
    states = [job.state for job in await store.jobs(JobFilter())]
    assert states == [JobState.SUCCEEDED, JobState.RUNNING]
    await store.close()
