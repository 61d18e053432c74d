"""Unique keys: lock the key, ask the rule about the job that holds it, write the new job."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta

from mutirao.model.job import NewJob
from mutirao.model.uniqueness import (
    FOREVER,
    PARKED,
    REPLACED,
    Holder,
    KeyName,
    Placed,
    Unique,
    Verdict,
    duplicate,
    judge,
)
from mutirao.sql.drivers.steps import Asking, Execute, Row
from mutirao.sql.rules.supersede import (
    IS_NAMED,
    NAME,
    Write,
    cancel,
    hold_key,
    park,
    place_last,
)
from mutirao.sql.rules.words import Words
from mutirao.sql.schema.instant import MICROS_PER_SECOND, from_micros, to_micros

_HOLDER = f"""
SELECT k.job, k.since, p.run_at, l.id, l.worker, l.run_at, j.run_at, p.id, p.worker,
    k.unique_for, (
        SELECT a.finished_at FROM mutirao_attempt a
        WHERE a.job = k.job AND a.outcome IN ('succeeded', 'dead')
    ), j.version
FROM mutirao_key k
LEFT JOIN mutirao_live l ON l.id = k.job
LEFT JOIN mutirao_job j ON j.id = k.job
LEFT JOIN mutirao_live p ON p.id = k.after
WHERE k.job <> 0 AND {IS_NAMED}
"""
_AT_STAKE = f"SELECT k.job, k.after FROM mutirao_key k WHERE {IS_NAMED}"
_COLUMNS = (*NAME, "job", "after", "since", "unique_for")


def place(words: Words, job: NewJob, now: datetime, write: Write) -> Asking[int]:
    """Write a job with a unique key by `write`, or find the one that has it; return the id.

    Its key is held. One with a supersede rule joins the superseding of its key.

    Raises:
        DuplicateJob: it was to be the only one; nothing was written.
    """
    unique = job.unique or Unique()
    if unique.supersede is not None:
        return (yield from place_last(words, job, unique, unique.supersede, now, write))
    name = unique.name(job.task, job.queue, job.key or "")
    if words.locks:
        [row] = yield Execute(_AT_STAKE, name)
        yield from words.hold_jobs([id for id in row if id])
    found = yield Execute(_HOLDER, name)
    holder = _holder(words, found[0]) if found else None
    due = job.run_at or now + timedelta(seconds=job.delay or 0)
    verdict = judge(unique, due, holder, now)
    if holder is not None:
        if verdict.how is None:
            raise duplicate(job.task, job.key, holder.job)
        if verdict.how == "found":
            return Placed(holder.job, verdict.how)
        if verdict.how == "outdated":
            return Placed(found[0][0], verdict.how)
    id = yield from write(replace(job, run_at=verdict.due, delay=None))
    after = None
    if holder is not None and holder.live:
        before = found[0][7]
        ahead = (holder.job,) if before is None else (holder.job, before)
        after = yield from _follow(words, id, ahead, now)
    yield from _take(words, name, id, after, verdict, unique)
    return Placed(id, verdict.how or "inserted")


def hold_keys(words: Words, jobs: Iterable[NewJob]) -> Asking[None]:
    """Lock the keys of jobs in order. One that is new has no job yet: 0."""
    if not words.locks:
        return
    yield from words.require_current()
    plain, superseding = set[KeyName](), set[KeyName]()
    for job in jobs:
        if job.unique is not None:
            name = job.unique.name(job.task, job.queue, job.key or "")
            (plain if job.unique.supersede is None else superseding).add(name)
    for name in sorted(plain):
        yield Execute(words.upsert("mutirao_key", _COLUMNS, NAME), (*name, 0, None, 0, None), False)
    for name in sorted(superseding):
        yield from hold_key(words, name)


def _holder(words: Words, row: Row) -> Holder:
    job, since, before_run_at, live, worker, run_at, asked, before, before_worker, *rest = row
    if live is None and before is not None:  # somebody cancelled what waited for that
        job, live, worker, run_at, before = before, before, before_worker, before_run_at, None
    parked = run_at == to_micros(PARKED)
    due = asked if parked else run_at
    unique_for, finished, version = rest
    until = None
    if unique_for is not None and finished is not None:
        until = (
            PARKED
            if unique_for == words.forever
            else from_micros(int(finished + unique_for * MICROS_PER_SECOND))
        )
    return Holder(
        job=job,
        since=from_micros(since),
        live=live is not None,
        runs=worker is not None,
        behind=before is not None and before_worker is not None,
        due=None if due is None else from_micros(due),
        until=until,
        version=version,
    )


def _follow(words: Words, id: int, ahead: tuple[int, ...], now: datetime) -> Asking[int | None]:
    """Cancel what waits of the jobs `ahead`; park the new one behind what runs, and return that."""
    yield from cancel(words, ahead, REPLACED, f"replaced by job {id}", now)
    which, values = words.among("id", ahead)
    sql = f"SELECT max(id) FROM mutirao_live WHERE {which}"
    ((running,),) = yield Execute(sql, values)
    if running is not None:
        yield park(id)
    return None if running is None else int(running)


def _take(
    words: Words, name: KeyName, id: int, after: int | None, verdict: Verdict, unique: Unique
) -> Asking[None]:
    sql = words.upsert("mutirao_key", _COLUMNS, NAME, _COLUMNS[len(NAME) :])
    unique_for = words.forever if unique.unique_for == FOREVER else unique.unique_for
    values = (*name, id, after, to_micros(verdict.since), unique_for)
    yield Execute(sql, values, answers=False)
