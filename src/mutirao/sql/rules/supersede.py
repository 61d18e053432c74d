"""Supersede: enqueue a job after the waiting jobs of its key, and cancel redundant ones.

Jobs enqueued in SQL wait in `mutirao_unjudged` until a process that has the rule asks it: a worker,
or the next caller that enqueues with that key in Python.
"""

from collections.abc import Callable, Collection
from dataclasses import replace
from datetime import datetime
from functools import partial

from mutirao.errors import InvalidJob
from mutirao.model.jobs.job import NewJob, OutcomeKind
from mutirao.model.keys.supersede import (
    SUPERSEDED,
    Decision,
    Supersede,
    cancelled_because,
    decide,
    dropped_because,
    repeated_because,
)
from mutirao.model.keys.uniqueness import PARKED, KeyName, Placed, Unique
from mutirao.sql.drivers.steps import Execute, Query
from mutirao.sql.rules.keys import IS_NAMED, NAME, Last, Live, hold, last
from mutirao.sql.rules.words import Words
from mutirao.sql.schema.types import from_micros, to_micros

Write = Callable[[NewJob], Query[int]]  # writes a job, and returns its id

_APPEND_ATTEMPTS = """
INSERT INTO mutirao_attempt
    (job, run, attempt, outcome, started_at, finished_at, error_type, error)
SELECT id, run % 2147483647 + 1, attempt, ?, ?, ?, ?, ? FROM mutirao_live {}
WHERE worker IS NULL AND """
UNJUDGED = f"""
SELECT k.job, {{}}, j.run_at, l.id
FROM mutirao_unjudged k
JOIN mutirao_job j ON j.id = k.job
LEFT JOIN mutirao_live l ON l.id = k.job
WHERE {IS_NAMED} AND j.task = ?
ORDER BY k.job
"""
_UNJUDGED = UNJUDGED.format("j.args")
_JUDGED = "DELETE FROM mutirao_unjudged WHERE job = ?"
_MOVE = "UPDATE mutirao_live {} SET run_at = ? WHERE id = ?"
_UNPARK = """
UPDATE mutirao_live SET run_at = (SELECT j.run_at FROM mutirao_job j WHERE j.id = mutirao_live.id)
WHERE id = (SELECT job FROM mutirao_unjudged WHERE job = ?)
"""
_REWRITE = "UPDATE mutirao_job {} SET args = ?, run_at = ?, fingerprint = NULL WHERE id = ?"


def place_last(
    words: Words, job: NewJob, unique: Unique, rule: Supersede, now: datetime, write: Write
) -> Query[int]:
    """Enqueue a job by `write` as the last of its key, as the rule says; return its id."""
    name = unique.name(job.task, job.queue, job.key or "")
    yield from judge(words, name, job.task, rule, now)
    return (yield from _place(words, job, name, rule, now, partial(_write, words, write)))


def hold_key(words: Words, name: KeyName) -> Query[None]:
    """Lock a key, where rows are locked."""
    if words.locks:
        sql = words.upsert("mutirao_supersede_last", (*NAME, "last"), NAME)
        yield Execute(sql, (*name, 0), answers=False)


def judge(words: Words, name: KeyName, task: str, rule: Supersede, now: datetime) -> Query[None]:
    """Apply the rule to the jobs of a key that SQL enqueued. The key is locked.

    One about which the rule cannot say anything is cancelled.
    """
    for id, args, run_at in (yield from _to_judge(words, name, task)):
        job = NewJob(task=task, args=args, run_at=from_micros(run_at))
        stands = partial(_stands, words, id, args)
        try:
            placed = yield from _place(words, job, name, rule, now, stands)
        except InvalidJob as unfit:
            yield from cancel(words, (id,), SUPERSEDED, str(unfit), now)
        else:
            if placed != id:
                yield from cancel(words, (id,), SUPERSEDED, repeated_because(placed), now)


def _to_judge(words: Words, name: KeyName, task: str) -> Query[list[tuple[int, str, int]]]:
    """Return the jobs that SQL enqueued, in order: ids, arguments and times; no other judges them.

    Without those that were cancelled meanwhile.
    """
    rows = yield Execute(_UNJUDGED, (*name, task))
    if not rows:
        return []
    if words.locks:
        return (yield from _to_judge_now(words, [id for id, *_ in rows]))
    yield from words.drop("mutirao_unjudged", [id for id, *_ in rows])
    return [(id, args, run_at) for id, args, run_at, live in rows if live is not None]


def _to_judge_now(words: Words, jobs: list[int]) -> Query[list[tuple[int, str, int]]]:
    which, values = words.among("job", jobs)
    sql = f"SELECT job FROM mutirao_unjudged {words.by_key} WHERE {which} ORDER BY job{words.hold}"
    still = [job for (job,) in (yield Execute(sql, values))]
    live = yield from hold(words, {*still})
    if still:
        yield from words.drop("mutirao_unjudged", still)
    return [(job, live[job].args, live[job].asked) for job in still if job in live]


def _write(words: Words, write: Write, job: NewJob) -> Query[int]:
    """Write a new job, which is not to wait until a program asks the rule."""
    id = yield from write(job)
    if words.parks_unjudged:
        yield Execute(_UNPARK, (id,), answers=False)
        yield Execute(_JUDGED, (id,), answers=False)
    return id


def _stands(words: Words, id: int, asked: str, job: NewJob) -> Query[int]:
    """Make an existing job due; with other arguments, if it was merged."""
    due = to_micros(job.run_at or PARKED)
    if job.args != asked:
        yield Execute(_REWRITE.format(words.by_key), (job.args, due, id), answers=False)
    yield Execute(_MOVE.format(words.by_key), (due, id), answers=False)
    return id


def _place(
    words: Words, job: NewJob, name: KeyName, rule: Supersede, now: datetime, write: Write
) -> Query[Placed]:
    newest, done = yield from last(words, name, rule)
    older = newest and newest.older
    decision = decide(rule, job.task, job.args, older, done)
    if decision.how == "repeated" and done is not None:
        return Placed(done.id, decision.how)
    merged = decision.args and newest and _merged(job, decision.args, newest.live)
    id = yield from write(merged or job)
    sql = words.upsert("mutirao_supersede_last", (*NAME, "last", "done"), NAME, ("last", "done"))
    yield Execute(sql, (*name, id, decision.done), answers=False)
    if newest is not None:
        yield from _take_place(words, id, newest, decision, now)
    return Placed(id, decision.how)


def cancel(
    words: Words, jobs: Collection[int], kind: str, error: str, now: datetime
) -> Query[None]:
    """End these jobs, which wait, and whose rows are held."""
    moment = to_micros(now)
    which, values = words.among("id", jobs)
    outcome = (str(OutcomeKind.CANCELLED), moment, moment, kind, error)
    yield Execute(_APPEND_ATTEMPTS.format(words.by_key) + which, (*outcome, *values), answers=False)
    yield words.drop_live(jobs, waiting=True)
    # Where an old transaction does not show that a limit has parked one since, its row is left
    # behind for those who call the next one of that limit: they pass it over, and delete it.
    which, values = words.among("job", jobs)
    parked = yield Execute(f"SELECT job FROM mutirao_parked WHERE {which}", values)
    if parked:
        yield from words.drop("mutirao_parked", [job for (job,) in parked])


def park(words: Words, id: int) -> Execute:
    """Return the statement that lets a job wait for another one's end."""
    return Execute(_MOVE.format(words.by_key), (to_micros(PARKED), id), answers=False)


def _merged(job: NewJob, args: str, older: Live) -> NewJob:
    """Return a job at an older one's time, which differs from the requested one."""
    run_at = from_micros(min(older.asked, older.run_at))
    return replace(job, args=args, run_at=run_at, delay=None, fingerprint=None)


def _take_place(
    words: Words, id: int, newest: Last, decision: Decision, now: datetime
) -> Query[None]:
    """Cancel redundant jobs; let the new job wait for the nearest one ahead, if there is one."""
    how, older = decision.how, newest.live.id
    ahead = older if how == "follows" else newest.before
    if how != "follows":
        yield from cancel(words, (older,), SUPERSEDED, cancelled_because(how, id), now)
        if ahead is not None:
            yield from words.drop("mutirao_supersede_wait", (older,))
    if how == "superseded":
        yield from cancel(words, (id,), SUPERSEDED, dropped_because(older), now)
    if ahead is not None:
        yield park(words, id)
        yield Execute(
            words.insert("mutirao_supersede_wait", ("job", "after")), (id, ahead), answers=False
        )
