"""Unique keys: lock the key, ask the rule about the job that holds it, write the new job."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta

from mutirao.model.jobs.job import NewJob
from mutirao.model.keys.uniqueness import (
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
from mutirao.sql.drivers.steps import Execute, Query
from mutirao.sql.rules import keys
from mutirao.sql.rules.keys import NAME, Holding
from mutirao.sql.rules.supersede import Write, cancel, hold_key, park, place_last
from mutirao.sql.rules.words import Words
from mutirao.sql.schema.types import MICROS_PER_SECOND, from_micros, to_micros

_COLUMNS = (*NAME, "job", "after", "since", "unique_for")


def place(words: Words, job: NewJob, now: datetime, write: Write) -> Query[int]:
    """Write a job with a unique key by `write`, or find the one that has it; return the id.

    Its key is held. One with a supersede rule joins the superseding of its key.

    Raises:
        DuplicateJob: it was to be the only one; nothing was written.
    """
    unique = job.unique or Unique()
    if unique.supersede is not None:
        return (yield from place_last(words, job, unique, unique.supersede, now, write))
    name = unique.name(job.task, job.queue, job.key or "")
    found = yield from keys.holding(words, name)
    holder = _holder(words, found) if found else None
    due = job.run_at or now + timedelta(seconds=job.delay or 0)
    verdict = judge(unique, due, holder, now)
    if holder is not None and found is not None:
        if verdict.how is None:
            raise duplicate(job.task, job.key, holder.job)
        if verdict.how == "found":
            return Placed(holder.job, verdict.how)
        if verdict.how == "outdated":
            return Placed(found.job, verdict.how)
    id = yield from write(replace(job, run_at=verdict.due, delay=None))
    after = (yield from _follow(words, id, found, now)) if found is not None else None
    yield from _take(words, name, id, after, verdict, unique)
    return Placed(id, verdict.how or "inserted")


def hold_keys(words: Words, jobs: Iterable[NewJob]) -> Query[None]:
    """Lock the keys of jobs in order. One that is new has no job yet: 0."""
    if not words.locks:
        return
    plain, superseding = set[KeyName](), set[KeyName]()
    for job in jobs:
        if job.unique is not None:
            name = job.unique.name(job.task, job.queue, job.key or "")
            (plain if job.unique.supersede is None else superseding).add(name)
    for name in sorted(plain):
        yield Execute(words.upsert("mutirao_key", _COLUMNS, NAME), (*name, 0, None, 0, None), False)
    for name in sorted(superseding):
        yield from hold_key(words, name)


def _holder(words: Words, found: Holding) -> Holder:
    live, ahead = found.live, found.ahead
    if live is None:  # what waited for that was cancelled
        live, ahead = ahead, None
    until = None
    if found.unique_for is not None and found.finished_at is not None:
        until = (
            PARKED
            if found.unique_for == words.forever
            else from_micros(int(found.finished_at + found.unique_for * MICROS_PER_SECOND))
        )
    return Holder(
        job=found.job if live is None else live.id,
        since=from_micros(found.since),
        live=live is not None,
        runs=live is not None and live.worker is not None,
        behind=ahead is not None and ahead.worker is not None,
        due=None if live is None else from_micros(live.due),
        until=until,
        version=found.version,
    )


def _follow(words: Words, id: int, found: Holding, now: datetime) -> Query[int | None]:
    """Cancel the key's waiting jobs; park the new job behind the running one, and return it."""
    ahead = [each for each in (found.ahead, found.live) if each is not None]
    waiting = [each.id for each in ahead if each.worker is None]
    if waiting:
        yield from cancel(words, waiting, REPLACED, f"replaced by job {id}", now)
    running = max((each.id for each in ahead if each.worker is not None), default=None)
    if running is not None:
        yield park(words, id)
    return running


def _take(
    words: Words, name: KeyName, id: int, after: int | None, verdict: Verdict, unique: Unique
) -> Query[None]:
    sql = words.upsert("mutirao_key", _COLUMNS, NAME, _COLUMNS[len(NAME) :])
    unique_for = words.forever if unique.unique_for == FOREVER else unique.unique_for
    values = (*name, id, after, to_micros(verdict.since), unique_for)
    yield Execute(sql, values, answers=False)
