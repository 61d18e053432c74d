"""Helpers of the contract tests: a fixed moment, and short functions for the usual steps."""

import asyncio
from collections.abc import Collection, Iterable
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, NoReturn

import pytest

from mutirao.model.jobs.job import Claim, Gives, Job, Lane, NewJob, NewWorker, OutcomeKind, Using
from mutirao.model.jobs.outcome import Outcome, Settlement
from mutirao.ports import Store

# Behind every real clock, so that what is due now is due for the database too.
NOW = datetime(2024, 2, 29, 12, 0, 0, 123_456, tzinfo=UTC)
LONG_AGO = datetime(2001, 1, 1, tzinfo=UTC)
FAR_AHEAD = datetime(2100, 1, 1, tzinfo=UTC)
DEADLINE = 30.0  # seconds; generous, only a failure waits this long
SLACK = 60.0  # seconds that a slow machine may take between two steps of a test

Face = Literal["enqueue", "aenqueue"]
both_faces = pytest.mark.parametrize("face", ["enqueue", "aenqueue"])


def at(seconds: float) -> datetime:
    """Return the moment `seconds` after NOW."""
    return NOW + timedelta(seconds=seconds)


def due(task: str = "greet", **options: Any) -> NewJob:
    """Return a job that is due at NOW, unless `options` say otherwise."""
    return NewJob(**{"task": task, "run_at": NOW, **options})


def lane(
    queue: str = "default", priority: int = 0, run_at: datetime = LONG_AGO, id: int = 0
) -> Lane:
    """Return a lane to be read from its very beginning, unless a bound is given."""
    return Lane(queue, priority, run_at, id)


def newcomer(**said: Any) -> NewWorker:
    """Return what a worker says of itself."""
    usual = {"name": "w", "host": "h", "pid": 1, "queues": None, "concurrency": 1, "version": "0"}
    return NewWorker(**{**usual, **said})


async def join(store: Store, *, expiry: float = 60.0, now: datetime | None = NOW) -> int:
    """Register a worker at NOW; return its id."""
    return await store.register(newcomer(), expiry=expiry, now=now)


async def enqueue(
    store: Store, face: Face, jobs: Iterable[NewJob], conn: object | None = None
) -> list[int]:
    """Enqueue through one of the two faces."""
    if face == "enqueue":
        return store.enqueue(jobs, conn)
    return await store.aenqueue(jobs, conn)


async def put(store: Store, *jobs: NewJob) -> list[int]:
    """Enqueue jobs; return their ids."""
    return await store.aenqueue(jobs)


async def take(
    store: Store,
    worker: int,
    limit: int = 100,
    *,
    now: datetime = NOW,
    without: Collection[str] = (),
    queues: Collection[str] | None = None,
) -> list[Claim]:
    """Claim as a worker does: read the lanes, then claim from them."""
    lanes = [head.lane for head in await store.lanes(queues, now=now)]
    return await store.claim(worker, lanes, limit, without=without, now=now)


async def take_one(store: Store, worker: int, *, now: datetime = NOW) -> Claim:
    """Claim the one job that is due."""
    [claim] = await take(store, worker, now=now)
    return claim


def ended(
    claim: Claim,
    kind: OutcomeKind = OutcomeKind.SUCCEEDED,
    *,
    after: float | None = None,
    at: datetime | None = None,
    error_type: str | None = None,
    error: str | None = None,
    **rest: Any,
) -> Settlement:
    """Return the settlement of a claim, with an outcome of this kind."""
    outcome = Outcome(kind, after, at, error_type, error)
    others = {"keyed": claim.key is not None, "linked": claim.linked}
    return Settlement(claim.id, claim.run, outcome, **others | rest)


async def finish(
    store: Store,
    worker: int,
    claims: Iterable[Claim],
    kind: OutcomeKind = OutcomeKind.SUCCEEDED,
    *,
    now: datetime = NOW,
    error_type: str | None = None,
    error: str | None = None,
) -> None:
    """Settle claims with a final outcome."""
    batch = [ended(claim, kind, error_type=error_type, error=error) for claim in claims]
    assert await store.settle(worker, batch, now=now) == {claim.id for claim in claims}


async def put_finished(
    store: Store,
    worker: int,
    *jobs: NewJob,
    kind: OutcomeKind = OutcomeKind.SUCCEEDED,
    now: datetime = NOW,
    error_type: str | None = None,
) -> list[int]:
    """Enqueue jobs, claim them and settle them; return their ids.

    Nothing else may be due in their queues.
    """
    ids = await put(store, *jobs)
    claims = await take(store, worker, len(ids), queues={job.queue for job in jobs})
    assert sorted(claim.id for claim in claims) == sorted(ids)
    await finish(store, worker, claims, kind, now=now, error_type=error_type)
    return ids


def ids_of(jobs: Iterable[Any]) -> list[int]:
    """Return the ids of claims or records, in their order."""
    return [job.id for job in jobs]


def job_of(claim: Claim) -> Job:
    """Return what a handler would be given of a claim."""

    def begin(job: Job, gives: Gives | Using) -> NoReturn:
        raise AssertionError("the contract opens its transactions through the store")

    return Job(claim, claim.max_attempts or 1, claim.timeout, begin)


def deadline() -> "asyncio.Timeout":
    """Return a context that fails a test which waits too long."""
    return asyncio.timeout(DEADLINE)


def refused() -> AbstractContextManager[pytest.ExceptionInfo[Exception]]:
    """Expect an error whose type is the backend's own affair."""
    return pytest.raises(Exception)  # noqa: PT011
