"""Jobs that are not wanted any more after a moment: what is noted, and which of them end unstarted.

That no worker starts one late is decided by the engine: a claim says until when its job is wanted.
"""

import asyncio
import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Literal

import pytest
from sqlalchemy import text

from mutirao.model.graphs.graph import chain, step
from mutirao.model.jobs.expiry import EXPIRED, EXPIRES_KEY, REASON, expiring, expiry_of
from mutirao.model.jobs.job import JobState, NewJob, OutcomeKind
from mutirao.model.jobs.records import JobFilter
from mutirao.model.keys.uniqueness import Unique
from mutirao.ports import Store
from mutirao.sql.schema.types import to_micros
from mutirao_conformance.graphs import write_graph
from mutirao_conformance.kit import (
    FAR_AHEAD,
    Face,
    at,
    due,
    ended,
    enqueue,
    finish,
    ids_of,
    join,
    put,
    put_finished,
    take,
    take_one,
)

Many = Literal["one", "several", "streamed"]


def until(moment: datetime, **options: Any) -> NewJob:
    """Return a job that is wanted until a moment."""
    return due(**{"metadata": expiring(options.pop("metadata", {}), moment), **options})


def asked(number: Many) -> list[NewJob] | Iterator[NewJob]:
    """Return jobs, the last of which is wanted until a moment."""
    jobs = [until(at(10), metadata={"a": 1})]
    if number == "one":
        return jobs
    jobs = [due(), *jobs]
    return jobs if number == "several" else iter(jobs)


async def enqueued_by_sql(store: Store, moment: datetime | None) -> int:
    """Enqueue a job as SQL does, wanted until a moment, as docs/sql.md says; return its id."""
    engines: Any = store.engines  # type: ignore[attr-defined]
    given: dict[str, Any] = {} if moment is None else {EXPIRES_KEY: moment.isoformat()}

    place = "" if engines.schema is None else f"{engines.schema}."
    job = {"task": "t", "metadata": json.dumps(given)}

    def written() -> int:
        with engines.sync().begin() as conn:
            if conn.dialect.name == "postgresql":
                sql = f"SELECT {place}mutirao_enqueue(:task, metadata => CAST(:metadata AS json))"
                id = conn.execute(text(sql), job).scalar_one()
                said: object = moment
            else:
                sql = "INSERT INTO mutirao_job (task, metadata) VALUES (:task, :metadata)"
                id = conn.execute(text(sql), job).lastrowid
                said = None if moment is None else to_micros(moment)
            if said is not None:
                sql = f"INSERT INTO {place}mutirao_expiry VALUES (:id, :said, :said)"  # noqa: S608
                conn.execute(text(sql), {"id": id, "said": said})
            return int(id)

    return await asyncio.to_thread(written)


class ExpiringContract:
    """`Store.end_expired`, and what a job says of its moment."""

    @pytest.mark.parametrize("number", ["one", "several", "streamed"])
    async def test_expiring_jobs_are_noted(self, store: Store, face: Face, number: Many) -> None:
        """Of one job, of some among others; people see it, before and after the end."""
        *others, id = await enqueue(store, face, asked(number))
        assert [(await store.job(each)).expires_at for each in others] == [None] * len(others)
        assert (await store.job(id)).expires_at == at(10)
        worker = await join(store)
        *rest, claim = await take(store, worker)
        assert (expiry_of(claim), [expiry_of(each) for each in rest]) == (
            at(10),
            [None] * len(rest),
        )
        await finish(store, worker, [claim])
        assert (await store.job(id)).expires_at == at(10)

    async def test_expiring_waiting_ones_end(self, store: Store) -> None:
        """Due or not, with the reason; not before their moment, and no others."""
        stays = await put(store, due(), until(FAR_AHEAD))
        gone = await put(store, until(at(10)), until(at(11), run_at=FAR_AHEAD))
        assert await store.end_expired(100, now=at(10)) == 0
        assert await store.end_expired(100, now=at(12)) == 2
        for id in gone:
            record = await store.job(id)
            assert (record.state, record.attempt) == (JobState.CANCELLED, 0)
            assert (record.error_type, record.error) == (EXPIRED, REASON)
            assert record.finished_at == at(12)
        assert await store.end_expired(100, now=at(13)) == 0
        assert ids_of(await take(store, await join(store))) == stays

    async def test_expiring_in_parts(self, store: Store) -> None:
        """The earliest first."""
        late, early = await put(store, until(at(20)), until(at(10)))
        assert await store.end_expired(1, now=at(30)) == 1
        assert (await store.job(early)).state is JobState.CANCELLED
        assert (await store.job(late)).state is JobState.READY
        assert await store.end_expired(1, now=at(30)) == 1

    async def test_expiring_running_ones_go_on(self, store: Store) -> None:
        """Until they wait again; they keep no others waiting for their end."""
        worker = await join(store)
        await put(store, until(at(1)))
        claim = await take_one(store, worker)
        [other] = await put(store, until(at(2)))
        assert await store.end_expired(1, now=at(10)) == 1
        assert (await store.job(other)).state is JobState.CANCELLED
        retried = ended(claim, OutcomeKind.RETRIED, at=at(60), error_type="E", error="no")
        assert await store.settle(worker, [retried], now=at(10)) == {claim.id}
        assert await store.end_expired(1, now=at(11)) == 1
        record = await store.job(claim.id)
        assert record.state is JobState.CANCELLED
        assert [each.error_type for each in record.attempts] == ["E", EXPIRED]

    async def test_expiring_ended_ones_stay(self, store: Store) -> None:
        """As they ended."""
        [done] = await put_finished(store, await join(store), until(at(1)))
        assert await store.end_expired(100, now=at(10)) == 0
        assert (await store.job(done)).state is JobState.SUCCEEDED

    async def test_expiring_ones_are_waited_for(self, store: Store) -> None:
        """A graph does what it says of such a step; a job with its key may be enqueued."""
        first, second = await write_graph(
            store, chain(step(until(at(1)), on_dead="continue"), step(due()))
        )
        keyed: dict[str, Any] = {"key": "k", "unique": Unique()}
        [held] = await put(store, until(at(1), **keyed))
        assert await put(store, until(at(90), **keyed)) == [held]
        assert (await store.job(held)).expires_at == at(1)
        assert await store.end_expired(100, now=at(10)) == 2
        assert (await store.job(first)).state is JobState.CANCELLED
        assert (await store.job(second)).state is JobState.READY
        assert await put(store, due(**keyed)) != [held]

    async def test_expiring_step_that_is_blocked(self, store: Store) -> None:
        """It is not wanted any more either, while the one before it runs."""
        first, second = await write_graph(store, chain(step(due()), step(until(at(1)))))
        claim = await take_one(store, await join(store))
        assert claim.id == first
        assert await store.end_expired(100, now=at(10)) == 1
        assert (await store.job(second)).state is JobState.CANCELLED

    async def test_expiring_ones_redriven_are_wanted(self, store: Store) -> None:
        """A redriven job has no expiry, although the first one had: a user wants it."""
        worker = await join(store)
        await put_finished(store, worker, until(at(1)), kind=OutcomeKind.DEAD)
        [again] = await store.redrive(JobFilter())
        assert (await store.job(again)).expires_at is None
        assert await store.end_expired(100, now=FAR_AHEAD) == 0
        assert expiry_of(await take_one(store, worker, now=FAR_AHEAD)) is None

    async def test_expiring_ones_of_sql(self, store: Store) -> None:
        """Another program gives a job its moment in the metadata, and notes it as documented."""
        id, other = await enqueued_by_sql(store, at(10)), await enqueued_by_sql(store, None)
        shown = [(await store.job(each)).expires_at for each in (id, other)]
        assert shown == [at(10), None]
        worker = await join(store)  # which looks for what is not live yet, where that has to be
        claims = await take(store, worker, now=FAR_AHEAD)
        assert {each.id: expiry_of(each) for each in claims} == {id: at(10), other: None}
        retried = [ended(each, OutcomeKind.RETRIED, at=FAR_AHEAD) for each in claims]
        assert await store.settle(worker, retried, now=at(10)) == {id, other}
        assert await store.end_expired(100, now=at(11)) == 1
        record = await store.job(id)
        assert (record.state, record.error_type) == (JobState.CANCELLED, EXPIRED)

    async def test_expiring_ones_rolled_back(self, store: Store) -> None:
        """What is noted of jobs that are refused is not there: their ids may be others'."""
        jobs = [until(at(1)), due(task="x" * 201)]
        with pytest.raises(Exception):  # noqa: B017, PT011 (the backend's own)
            await store.aenqueue(jobs)
        await put(store, due(), due())
        assert await store.end_expired(100, now=at(10)) == 0
