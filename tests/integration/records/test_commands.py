"""Cancelling, running now, redriving and pruning where the SQL itself matters; the rest is in the
conformance suite."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import psycopg
import pytest
from sqlalchemy import select

from mutirao.model.jobs.job import FINAL_OUTCOMES, JobState, NewJob, OutcomeKind
from mutirao.model.jobs.outcome import Outcome
from mutirao.model.jobs.records import JobFilter
from mutirao.sql.schema import tables
from mutirao.sql.store.jobs import SqlStore
from tests.support.history import claim, make_history, opened

MANY = 70_000  # more than any driver binds as parameters of one statement


@pytest.fixture
async def store(migrated_url: str) -> AsyncIterator[SqlStore]:
    """A store over an empty database."""
    async with opened(migrated_url) as store:
        yield store


async def test_a_cancelled_job_does_not_repeat_a_run(store: SqlStore) -> None:
    """The run that was retried is in history already; cancelling appends another one."""
    made = await make_history(store)
    assert await store.cancel(JobFilter(ids=(made.retried,))) == [made.retried]
    record = await store.job(made.retried)
    assert record.state is JobState.CANCELLED
    assert [(a.run, a.attempt, a.outcome, a.worker) for a in record.attempts] == [
        (1, 1, OutcomeKind.RETRIED, made.worker),
        (2, 1, OutcomeKind.CANCELLED, None),
    ]


async def test_any_number_of_ids(store: SqlStore) -> None:
    """Ids travel as one value, however many there are."""
    ids = tuple(range(1, MANY))
    made = await make_history(store)
    everything = JobFilter(ids=ids, limit=None)
    assert len(await store.jobs(everything)) == 7
    assert await store.run_now(everything) == [made.retried, made.scheduled, made.ready]
    assert await store.cancel(everything) == [
        made.retried,
        made.running,
        made.scheduled,
        made.ready,
    ]
    # All but the running one, which has not ended.
    assert len(await store.redrive(everything)) == 6


async def test_run_now_keeps_the_place_of_what_is_due(store: SqlStore) -> None:
    """A job that is due already is not sent to the end of its lane."""
    made = await make_history(store)
    first, second = await store.aenqueue([NewJob(task="t"), NewJob(task="t", delay=3600.0)])
    before = (await store.job(first)).run_at
    assert await store.run_now(JobFilter(task="t")) == [first, second]
    assert (await store.job(first)).run_at == before
    taken = [claimed.id for claimed in await claim(store, made.worker, 9)]
    assert [id for id in taken if id in (first, second)] == [first, second]


async def test_a_redriven_job_is_copied_to_the_letter(store: SqlStore) -> None:
    """Numbers keep the digits that Python's would lose."""
    made = await make_history(store)
    exact = '{"amount": 0.12345678901234567890, "id": 123456789012345678901234567890}'
    asked = NewJob(
        task="t",
        args=exact,
        queue="q",
        priority=-3,
        max_attempts=5,
        timeout=2.5,
        key="k",
        tags=("a", "b"),
        metadata={"who": "me"},
        traceparent="00-1-2-3",
        on_dead_of=made.dead,
        delay=0.0,
    )
    (id,) = await store.aenqueue([asked])
    (settlement,) = [s for s in await claim(store, made.worker, 9) if s.id == id]
    died = Outcome(OutcomeKind.DEAD, error_type="E", error="e")
    await store.settle(made.worker, [settlement._replace(outcome=died)])

    (again,) = await store.redrive(JobFilter(ids=(id,)))
    old, new = await store.job(id), await store.job(again)
    assert (new.redrive_of, new.attempt, new.state) == (id, 0, JobState.READY)
    for name in ("task", "queue", "priority", "max_attempts", "timeout", "key", "tags", "metadata",
                 "traceparent", "on_dead_of"):  # fmt: skip
        assert getattr(new, name) == getattr(old, name) == getattr(asked, name)
    (claimed,) = [
        job
        for job in await store.claim(
            made.worker, [head.lane for head in await store.lanes(["q"])], 9
        )
        if job.id == again
    ]
    assert claimed.args == exact


async def test_two_who_redrive_at_once_make_no_job_twice(migrated_url: str) -> None:
    """Each passes over what the other has made, though neither had seen it begin."""
    async with opened(migrated_url) as store, opened(migrated_url) as other:
        made = await make_history(store)
        new = await asyncio.gather(*(s.redrive(JobFilter()) for s in [store, other] * 5))
        assert sorted(map(len, new)) == [0] * 9 + [1]
        (again,) = [id for ids in new for id in ids]
        assert (await store.job(again)).redrive_of == made.dead


async def test_cancel_waits_for_a_claim_and_then_flags_the_job(
    migrated_postgresql_url: str,
) -> None:
    """A job that somebody is just taking is not missed: it is running when cancel sees it."""
    async with opened(migrated_postgresql_url) as store:
        made = await make_history(store)
        url = migrated_postgresql_url.replace("+psycopg", "")
        async with await psycopg.AsyncConnection.connect(url) as taker:
            await taker.execute(
                "UPDATE mutirao_live SET worker = %s, run = 1, attempt = 1, claimed_at = now()"
                " WHERE id = %s",
                (made.worker, made.ready),
            )
            cancelling = asyncio.create_task(store.cancel(JobFilter(ids=(made.ready,))))
            await _until_somebody_waits_for_a_lock(url)
            await taker.commit()
            assert await cancelling == [made.ready]
        assert (await store.job(made.ready)).state is JobState.RUNNING
        beat = await store.beat(made.worker, expiry=60)
        assert (made.ready, 1) in beat.cancelled


@pytest.mark.parametrize("outcome", OutcomeKind)
async def test_prune_takes_only_what_ended_so(store: SqlStore, outcome: OutcomeKind) -> None:
    """Every job but those of that outcome is left, with all its attempts; final ones only go."""
    await make_history(store)
    before = {record.id: record for record in await store.jobs(JobFilter())}
    gone = {id for id, record in before.items() if record.state.value == outcome.value}
    assert len(gone) == (outcome in FINAL_OUTCOMES)

    assert await store.prune(outcome, -60.0, 10) == len(gone)

    assert {record.id for record in await store.jobs(JobFilter())} == before.keys() - gone
    for table, column in ((tables.job, "id"), (tables.attempt, "job")):
        with store.engines.sync().connect() as connection:
            left = set(connection.scalars(select(table.c[column])))
        assert left & gone == set()
        assert left
    assert len((await store.job(min(before.keys() - gone))).attempts) < 2


async def _until_somebody_waits_for_a_lock(url: str) -> None:
    async with asyncio.timeout(30):
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as watcher:
            while True:
                waiting = await watcher.execute(
                    "SELECT 1 FROM pg_stat_activity"
                    " WHERE wait_event_type = 'Lock' AND datname = current_database()"
                )
                if await waiting.fetchone():
                    return
