"""Supersede: enqueue a job after the waiting jobs of its key, and cancel redundant ones.

What SQL enqueued waits in `mutirao_unjudged` until somebody who has the rule asks it: a worker, or
the next one who enqueues with that key in Python.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from functools import partial

from mutirao.errors import InvalidJob
from mutirao.model.job import NewJob, OutcomeKind
from mutirao.model.supersede import (
    SUPERSEDED,
    Decision,
    Done,
    Older,
    Supersede,
    cancelled_because,
    decide,
    dropped_because,
    repeated_because,
)
from mutirao.model.uniqueness import PARKED, KeyName, Placed, Unique
from mutirao.sql.drivers.steps import Asking, Execute, each
from mutirao.sql.rules.words import Words
from mutirao.sql.schema.instant import from_micros, to_micros

Write = Callable[[NewJob], Asking[int]]  # writes a job, and returns its id

NAME = ("scope", "task", "queue", "key")
IS_NAMED = "k.scope = ? AND k.task = ? AND k.queue = ? AND k.key = ?"
# The last live job of a key: the last one of all, or the one that it waited for.
_LAST = f"""
SELECT l.id, j.task, j.args, l.worker IS NULL AND l.attempt = 0,
    CASE WHEN j.run_at < l.run_at THEN j.run_at ELSE l.run_at END, t.after
FROM mutirao_supersede_last k
LEFT JOIN mutirao_supersede_wait w ON w.job = k.last
JOIN mutirao_live l ON l.id IN (k.last, w.after)
JOIN mutirao_job j ON j.id = l.id
LEFT JOIN mutirao_supersede_wait t ON t.job = l.id
WHERE {IS_NAMED}
ORDER BY l.id = k.last DESC LIMIT 1
"""
_AT_STAKE = f"""
SELECT k.last, w.after
FROM mutirao_supersede_last k LEFT JOIN mutirao_supersede_wait w ON w.job = k.last
WHERE {IS_NAMED}
"""
# The last job of a key that has succeeded, if nobody has tried any after it.
DONE = f"""
SELECT d.id, d.task, {{}}
FROM mutirao_supersede_last k
LEFT JOIN mutirao_attempt a
    ON a.job = k.last AND a.outcome IN ('succeeded', 'dead', 'cancelled')
JOIN mutirao_job d ON d.id = CASE
    WHEN a.outcome = 'succeeded' THEN k.last
    WHEN a.outcome IS NULL OR a.outcome = 'cancelled' AND a.attempt = 0 THEN k.done
END
WHERE {IS_NAMED}
"""
TELL = """
INSERT INTO mutirao_attempt
    (job, run, attempt, outcome, started_at, finished_at, error_type, error)
SELECT id, run % 2147483647 + 1, attempt, ?, ?, ?, ?, ? FROM mutirao_live
WHERE worker IS NULL AND """
_DONE = DONE.format("d.args")
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
_MOVE = "UPDATE mutirao_live SET run_at = ? WHERE id = ?"
_UNPARK = """
UPDATE mutirao_live SET run_at = (SELECT j.run_at FROM mutirao_job j WHERE j.id = mutirao_live.id)
WHERE id = (SELECT job FROM mutirao_unjudged WHERE job = ?)
"""
_REWRITE = "UPDATE mutirao_job SET args = ?, run_at = ?, fingerprint = NULL WHERE id = ?"


def place_last(
    words: Words, job: NewJob, unique: Unique, rule: Supersede, now: datetime, write: Write
) -> Asking[int]:
    """Enqueue a job by `write` as the last of its key, as the rule says; return its id."""
    name = unique.name(job.task, job.queue, job.key or "")
    yield from judge(words, name, job.task, rule, now)
    return (yield from _place(words, job, name, rule, now, partial(_write, words, write)))


def hold_key(words: Words, name: KeyName) -> Asking[None]:
    """Lock a key, where rows are locked."""
    if words.locks:
        sql = words.upsert("mutirao_supersede_last", (*NAME, "last"), NAME)
        yield Execute(sql, (*name, 0), answers=False)


def judge(words: Words, name: KeyName, task: str, rule: Supersede, now: datetime) -> Asking[None]:
    """Ask the rule about the jobs of a key that SQL enqueued. The key is held.

    One about which the rule cannot say anything is cancelled.
    """
    for id, args, run_at, live in (yield Execute(_UNJUDGED, (*name, task))):
        yield Execute(_JUDGED, (id,), answers=False)
        if live is None:  # it was cancelled meanwhile
            continue
        job = NewJob(task=task, args=args, run_at=from_micros(run_at))
        try:
            placed = yield from _place(words, job, name, rule, now, partial(_stands, id, args))
        except InvalidJob as unfit:
            yield from cancel(words, (id,), SUPERSEDED, str(unfit), now)
        else:
            if placed != id:
                yield from cancel(words, (id,), SUPERSEDED, repeated_because(placed), now)


def _write(words: Words, write: Write, job: NewJob) -> Asking[int]:
    """Write a new job, which is not to wait for somebody to ask the rule."""
    id = yield from write(job)
    if words.parks_unjudged:
        yield Execute(_UNPARK, (id,), answers=False)
        yield Execute(_JUDGED, (id,), answers=False)
    return id


def _stands(id: int, asked: str, job: NewJob) -> Asking[int]:
    """Let a job that is there already be due; with other arguments, if it was merged."""
    due = to_micros(job.run_at or PARKED)
    if job.args != asked:
        yield Execute(_REWRITE, (job.args, due, id), answers=False)
    yield Execute(_MOVE, (due, id), answers=False)
    return id


def _place(
    words: Words, job: NewJob, name: KeyName, rule: Supersede, now: datetime, write: Write
) -> Asking[Placed]:
    if words.locks:
        [row] = yield Execute(_AT_STAKE, name)
        yield from words.hold_jobs([id for id in row if id])
    found = yield Execute(_LAST, name)
    older = Older(*found[0][:4]) if found else None
    done = yield from last_done(rule, name, _DONE)
    decision = decide(rule, job.task, job.args, older, done)
    if decision.how == "repeated" and done is not None:
        return Placed(done.id, decision.how)
    id = yield from write(_merged(job, decision.args, found[0][4]) if decision.args else job)
    sql = words.upsert("mutirao_supersede_last", (*NAME, "last", "done"), NAME, ("last", "done"))
    yield Execute(sql, (*name, id, decision.done), answers=False)
    if older is not None:
        yield from _take_place(words, id, older.id, found[0][5], decision, now)
    return Placed(id, decision.how)


def last_done(rule: Supersede, name: KeyName, sql: str) -> Asking[Done | None]:
    """Return the last successful job of a key, if the rule drops what is repeated."""
    if not rule.drop_repeated:
        return None
    found = yield Execute(sql, name)
    return Done(*found[0]) if found else None


def cancel(
    words: Words, jobs: tuple[int, ...], kind: str, error: str, now: datetime
) -> Asking[None]:
    """End those of these jobs that wait."""
    moment = to_micros(now)
    which, values = words.among("id", jobs)
    told = (str(OutcomeKind.CANCELLED), moment, moment, kind, error)
    yield Execute(TELL + which, (*told, *values), answers=False)
    yield words.drop_live(jobs, waiting=True)
    which, values = words.among("id", jobs)
    left = {id for (id,) in (yield Execute(f"SELECT id FROM mutirao_live WHERE {which}", values))}
    if ended := [(id,) for id in jobs if id not in left]:
        yield each("DELETE FROM mutirao_parked WHERE job = ?", ended)


def park(id: int) -> Execute:
    """Return the statement that lets a job wait for another one's end."""
    return Execute(_MOVE, (to_micros(PARKED), id), answers=False)


def _merged(job: NewJob, args: str, run_at: int) -> NewJob:
    """Return a job at an older one's time, which is not equal to what was asked."""
    return replace(job, args=args, run_at=from_micros(run_at), delay=None, fingerprint=None)


def _take_place(
    words: Words, id: int, older: int, before: int | None, decision: Decision, now: datetime
) -> Asking[None]:
    """Cancel what is redundant; let the new job wait for the nearest one ahead, if there is."""
    how = decision.how
    ahead = older if how == "follows" else before
    if how != "follows":
        yield from cancel(words, (older,), SUPERSEDED, cancelled_because(how, id), now)
        yield Execute("DELETE FROM mutirao_supersede_wait WHERE job = ?", (older,), answers=False)
    if how == "superseded":
        yield from cancel(words, (id,), SUPERSEDED, dropped_because(older), now)
    if ahead is not None:
        yield park(id)
        yield Execute(
            words.insert("mutirao_supersede_wait", ("job", "after")), (id, ahead), answers=False
        )
