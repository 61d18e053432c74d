"""Unique keys on SQLite: who writes has the only write lock, so looking first is no race."""

from collections.abc import Generator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from mutirao.job import NewJob, OutcomeKind
from mutirao.sql.callers.steps import Execute, Request, Rows
from mutirao.sql.dialects.sqlite.series import Write, join
from mutirao.sql.instant import from_micros, to_micros
from mutirao.unique import (
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

_HOLDER = """
SELECT k.job, k.since, p.run_at, l.id, l.worker, l.run_at, j.run_at, p.id, p.worker, (
    SELECT CAST(a.finished_at + k.unique_for * 1000000 AS integer) FROM mutirao_attempt a
    WHERE a.job = k.job AND a.outcome IN ('succeeded', 'dead')
)
FROM mutirao_key k
LEFT JOIN mutirao_live l ON l.id = k.job
LEFT JOIN mutirao_job j ON j.id = k.job
LEFT JOIN mutirao_live p ON p.id = k.after
WHERE k.scope = ? AND k.task = ? AND k.queue = ? AND k.key = ?
"""
_TELL = """
INSERT INTO mutirao_attempt
    (job, run, attempt, outcome, started_at, finished_at, error_type, error)
SELECT id, run % 2147483647 + 1, attempt, ?, ?, ?, ?, ? FROM mutirao_live
WHERE id IN (?, ?) AND worker IS NULL
"""
_DROP = "DELETE FROM mutirao_live WHERE id IN (?, ?) AND worker IS NULL"
_RUNNING = "SELECT max(id) FROM mutirao_live WHERE id IN (?, ?)"
_PARK = "UPDATE mutirao_live SET run_at = ? WHERE id = ?"
_HOLD = """
INSERT INTO mutirao_key (scope, task, queue, key, job, after, since, unique_for)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (scope, task, queue, key) DO UPDATE SET
    job = excluded.job, after = excluded.after, since = excluded.since,
    unique_for = excluded.unique_for
"""


def place(job: NewJob, now: datetime, write: Write) -> Generator[Request, Rows, int]:
    """Write a job with a unique key by `write`, or find the one that has it; return the id.

    One with a supersede rule joins the series of its key.

    Raises:
        DuplicateJob: it was to be the only one; nothing was written.
    """
    unique = job.unique or Unique()
    if unique.supersede is not None:
        return (yield from join(job, unique, unique.supersede, now, write))
    name = unique.name(job.task, job.queue, job.key or "")
    found = yield Execute(_HOLDER, name)
    holder = _holder(found[0]) if found else None
    due = job.run_at or now + timedelta(seconds=job.delay or 0)
    verdict = judge(unique, due, holder, now)
    if holder is not None and verdict.how in (None, "found"):
        if verdict.how is None:
            raise duplicate(job.task, job.key, holder.job)
        return Placed(holder.job, verdict.how)
    ((id,),) = yield write(replace(job, run_at=verdict.due, delay=None))
    after = None
    if holder is not None and holder.live:
        ahead = (holder.job, holder.job if found[0][7] is None else found[0][7])
        after = yield from _follow(id, ahead, now)
    yield from _hold(name, id, after, verdict, unique)
    return Placed(id, verdict.how or "inserted")


def _holder(row: tuple[Any, ...]) -> Holder:
    job, since, before_run_at, live, worker, run_at, asked, before, before_worker, until = row
    if live is None and before is not None:  # somebody cancelled what waited for that
        job, live, worker, run_at, before = before, before, before_worker, before_run_at, None
    parked = run_at == to_micros(PARKED)
    due = asked if parked else run_at
    return Holder(
        job=job,
        since=from_micros(since),
        live=live is not None,
        runs=worker is not None,
        behind=before is not None and before_worker is not None,
        due=None if due is None else from_micros(due),
        until=None if until is None else from_micros(until),
    )


def _follow(id: int, ahead: tuple[int, int], now: datetime) -> Generator[Request, Rows, int | None]:
    """Cancel what waits of the jobs `ahead`; park the new one behind what runs, and return that."""
    moment = to_micros(now)
    told = (str(OutcomeKind.CANCELLED), moment, moment, REPLACED, f"replaced by job {id}")
    yield Execute(_TELL, (*told, *ahead), answers=False)
    yield Execute(_DROP, ahead, answers=False)
    ((running,),) = yield Execute(_RUNNING, ahead)
    if running is not None:
        yield Execute(_PARK, (to_micros(PARKED), id), answers=False)
    return None if running is None else int(running)


def _hold(
    name: KeyName, id: int, after: int | None, verdict: Verdict, unique: Unique
) -> Generator[Request, Rows, None]:
    values = (*name, id, after, to_micros(verdict.since), unique.unique_for)
    yield Execute(_HOLD, values, answers=False)
