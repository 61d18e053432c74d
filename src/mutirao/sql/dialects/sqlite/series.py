"""Jobs in series on SQLite: who writes has the only write lock, so a decision is done at once."""

from collections.abc import Callable, Generator
from dataclasses import replace
from datetime import datetime

from mutirao.job import NewJob, OutcomeKind
from mutirao.sql.callers.steps import Execute, Request, Rows
from mutirao.sql.instant import from_micros, to_micros
from mutirao.supersede import (
    SUPERSEDED,
    Decision,
    Older,
    Supersede,
    cancelled_because,
    decide,
    dropped_because,
)
from mutirao.unique import PARKED, Placed, Unique

# The last live job of a key: the last one of all, or the one that it waited for.
_LAST = """
SELECT l.id, j.task, j.args, l.worker IS NULL AND l.attempt = 0, min(j.run_at, l.run_at), t.after
FROM mutirao_series s
LEFT JOIN mutirao_turn w ON w.job = s.last
JOIN mutirao_live l ON l.id IN (s.last, w.after)
JOIN mutirao_job j ON j.id = l.id
LEFT JOIN mutirao_turn t ON t.job = l.id
WHERE s.scope = ? AND s.task = ? AND s.queue = ? AND s.key = ?
ORDER BY l.id = s.last DESC LIMIT 1
"""
_ENTER = """
INSERT INTO mutirao_series (scope, task, queue, key, last) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (scope, task, queue, key) DO UPDATE SET last = excluded.last
"""
_TELL = """
INSERT INTO mutirao_attempt
    (job, run, attempt, outcome, started_at, finished_at, error_type, error)
SELECT id, run % 2147483647 + 1, attempt, ?, ?, ?, ?, ? FROM mutirao_live WHERE id = ?
"""
_DROP = "DELETE FROM mutirao_live WHERE id = ?"
_LEAVE = "DELETE FROM mutirao_turn WHERE job = ?"
_PARK = "UPDATE mutirao_live SET run_at = ? WHERE id = ?"
_WAIT = "INSERT INTO mutirao_turn (job, after) VALUES (?, ?)"

Write = Callable[[NewJob], Execute]
Told = Generator[Request, Rows, None]


def join(
    job: NewJob, unique: Unique, rule: Supersede, now: datetime, write: Write
) -> Generator[Request, Rows, int]:
    """Write a job by `write` as the last of its key, as the rule says; return its id."""
    name = unique.name(job.task, job.queue, job.key or "")
    found = yield Execute(_LAST, name)
    older = Older(*found[0][:4]) if found else None
    decision = decide(rule, job.task, job.args, older)
    ((id,),) = yield write(_merged(job, decision.args, found[0][4]) if decision.args else job)
    yield Execute(_ENTER, (*name, id), answers=False)
    if older is not None:
        yield from _take_place(id, older.id, found[0][5], decision, now)
    return Placed(id, decision.how)


def _merged(job: NewJob, args: str, run_at: int) -> NewJob:
    """Return a job at an older one's time, which is not equal to what was asked."""
    return replace(job, args=args, run_at=from_micros(run_at), delay=None, fingerprint=None)


def _take_place(id: int, older: int, before: int | None, decision: Decision, now: datetime) -> Told:
    """Cancel what is redundant; let the new job wait for the nearest one ahead, if there is."""
    how = decision.how
    ahead = older if how == "follows" else before
    if how != "follows":
        yield from _cancel(older, cancelled_because(how, id), now)
        yield Execute(_LEAVE, (older,), answers=False)
    if how == "superseded":
        yield from _cancel(id, dropped_because(older), now)
    if ahead is not None:
        yield Execute(_PARK, (to_micros(PARKED), id), answers=False)
        yield Execute(_WAIT, (id, ahead), answers=False)


def _cancel(id: int, error: str, now: datetime) -> Told:
    moment = to_micros(now)
    told = (str(OutcomeKind.CANCELLED), moment, moment, SUPERSEDED, error)
    yield Execute(_TELL, (*told, id), answers=False)
    yield Execute(_DROP, (id,), answers=False)
