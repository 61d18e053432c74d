"""Settling: write the attempts that ended; their jobs leave the live table or wait again."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import NamedTuple

from mutirao.model.jobs.outcome import Settlement
from mutirao.model.limits.claims_and_wakes import Settled
from mutirao.model.limits.fairness import queue_of
from mutirao.sql.drivers.steps import Execute, Query, Row, Rows, all_of, execute_many
from mutirao.sql.rules import limits
from mutirao.sql.rules.base import by_id, given_back
from mutirao.sql.rules.words import Words
from mutirao.sql.schema.types import MICROS_PER_SECOND, to_micros

_ATTEMPT = (
    "job", "run", "attempt", "worker", "outcome", "started_at", "finished_at", "error_type",
    "error",
)  # fmt: skip
_FINISHED = _ATTEMPT.index("finished_at")
_HELD = """
SELECT id, run, attempt, worker, claimed_at, queue, cancel, EXISTS (SELECT 1 FROM mutirao_counter)
FROM mutirao_live {}
WHERE claimed_at IS NOT NULL AND """
_WAIT = """
UPDATE mutirao_live SET worker = NULL, claimed_at = NULL, attempt = attempt - ?, run_at = ?,
    queue = ?, lost = lost * ? + ?, cut_off = cut_off * ? + ?
WHERE id = ?
"""
_GIVE_BACK = """
UPDATE mutirao_live {} SET worker = NULL, claimed_at = NULL, attempt = attempt - 1 WHERE """

_LINKS = ("mutirao_key", "mutirao_supersede_wait")


class Held(NamedTuple):
    """A live row that a run holds, and whether anything is counted by limits."""

    id: int
    run: int
    attempt: int
    worker: int | None
    claimed_at: int
    queue: str
    cancel: int
    counted: int


class Current(NamedTuple):
    """The settlements that are not stale, with the rows that exist before the write.

    `rows`: the live rows, locked. `slots`: what they hold of limits, as pairs of a job and a
    counter; None: to be asked. `more`: the rows of what was asked with them.
    """

    moment: int
    settlements: dict[int, Settlement]
    rows: dict[int, Held]
    slots: Rows | None
    more: list[Rows]


def current(
    words: Words, settlements: Sequence[Settlement], now: datetime | None, *more: Execute
) -> Query[Current]:
    """Lock the live rows of settlements, and find out which are stale; nothing is written.

    One round trip asks for the time, the rows, the slots they hold, and `more`.
    """
    jobs = [s.id for s in settlements]
    clock = [Execute(f"SELECT {words.clock}")] if words.clock and now is None else []
    slots = [limits.slots(words, jobs)] if words.locks else []
    answers = yield from all_of([*clock, _holding(words, jobs), *slots, *more])
    moment = answers.pop(0)[0][0] if clock else (yield from words.moment(now))
    rows = {row[0]: Held._make(row) for row in answers.pop(0)}
    there = {s.id: s for s in by_id(settlements) if s.id in rows and rows[s.id].run == s.run}
    return Current(moment, there, rows, answers.pop(0) if slots else None, answers)


def held(words: Words, jobs: Collection[int], *, free: bool = False) -> Query[dict[int, Held]]:
    """Lock the live rows of those of these jobs that run, and return them.

    `free`: but those that another transaction has.
    """
    rows = yield _holding(words, jobs, free=free)
    return {row[0]: Held._make(row) for row in rows}


def _holding(words: Words, jobs: Collection[int], *, free: bool = False) -> Execute:
    which, values = words.among("id", jobs)
    order = f" ORDER BY id{words.hold_free if free else words.hold}" if words.locks else ""
    return Execute(f"{_HELD.format(words.by_key)}{which}{order}", values)


def hold(words: Words, jobs: Collection[int]) -> Query[None]:
    """Lock the live rows of these jobs, of those that wait for them, and that they wait for."""
    if not words.locks or not jobs:
        return
    held = set[int]()
    # Jobs that came to wait between a read and the lock are found by another read.
    while new := {*jobs, *(yield from _linked(words, jobs))} - held:
        held |= new
        yield from words.hold_jobs(held, now=len(jobs) > 1)


def _linked(words: Words, jobs: Collection[int]) -> Query[set[int]]:
    which = [words.among(column, jobs) for column in ("job", "after")]
    looks = [(table, each) for table in _LINKS for each in which]
    sql = " UNION ALL ".join(
        f"SELECT job, after FROM {table} WHERE {at.sql}" for table, at in looks
    )
    rows = yield Execute(sql, tuple(value for _, at in looks for value in at.values))
    return {id for row in rows for id in row if id}


def finish(
    words: Words, settlements: Sequence[Settlement], now: datetime | None
) -> Query[set[int]]:
    """Write final outcomes."""
    return (yield from finish_current(words, (yield from current(words, settlements, now))))


def finish_current(words: Words, found: Current) -> Query[set[int]]:
    """Write the final outcomes of those that are not stale."""
    if not found.settlements:
        return set()
    yield from _append_attempts(words, found)
    yield words.drop_live(found.settlements)
    return (yield from _counted_down(words, found))


def resume(
    words: Words, settlements: Sequence[Settlement], now: datetime | None
) -> Query[set[int]]:
    """Write outcomes after which the jobs wait again."""
    found = yield from current(words, settlements, now)
    if not found.settlements:
        return set()
    yield from _append_attempts(words, found)
    rows = [_waiting(s, found.rows[id], found.moment) for id, s in found.settlements.items()]
    yield execute_many(_WAIT, rows)
    return (yield from _counted_down(words, found))


def release(words: Words, jobs: Sequence[tuple[int, int]]) -> Query[set[int]]:
    """Give back jobs that were never started."""
    found = yield from held(words, [id for id, _ in jobs])
    given = {id for id, run in jobs if id in found and found[id].run == run}
    if given:
        which, values = words.among("id", given)
        yield Execute(_GIVE_BACK.format(words.by_key) + which, values, answers=False)
        yield from limits.give_back(words, given, None)
    return given


def write_attempts(words: Words, rows: Sequence[Row], moment: int) -> Query[None]:
    """Append attempt rows."""
    until = yield from words.late_before(min(row[_FINISHED] for row in rows), moment)
    if until is None:
        yield execute_many(words.insert("mutirao_attempt", _ATTEMPT), rows)
        return
    late = [(*row, True if row[_FINISHED] < until else None) for row in rows]
    yield execute_many(words.insert("mutirao_attempt", (*_ATTEMPT, "came_late")), late)


def _append_attempts(words: Words, found: Current) -> Query[None]:
    """Append the attempt rows of the settlements that are not stale."""
    rows = [_attempt_row(s, found.rows[id], found.moment) for id, s in found.settlements.items()]
    yield from write_attempts(words, rows, found.moment)


def _counted_down(words: Words, found: Current) -> Query[set[int]]:
    """Free the slots of ended runs; return the jobs, and the lanes that others came back to."""
    ended = found.settlements
    if not any(found.rows[id].counted for id in ended):
        return set(ended)
    slots = (yield limits.slots(words, ended)) if found.slots is None else found.slots
    settled = Settled(ended)
    free = [(job, counter) for job, counter in slots if job in ended]
    settled.woken = yield from limits.free_slots(words, free, found.moment)
    return settled


def _attempt_row(s: Settlement, row: Held, moment: int) -> Row:
    started = moment - round(s.started_ago * MICROS_PER_SECOND)
    finished = moment - round(s.finished_ago * MICROS_PER_SECOND)
    outcome = s.outcome
    return (
        *(s.id, s.run, row.attempt, row.worker, str(outcome.kind)),
        *(started, finished, outcome.error_type, outcome.error),
    )


def _waiting(s: Settlement, row: Held, moment: int) -> Row:
    """Return the values of `_WAIT`."""
    back = given_back(s.outcome)
    goes_on = int(back >= 2)
    at = moment if row.cancel else _run_at(s, moment)
    lane = row.queue if back >= 0 else queue_of(row.queue)
    return (int(back > 0), at, lane, goes_on, int(back == 4), goes_on, int(back == 3), s.id)


def _run_at(s: Settlement, moment: int) -> int:
    if s.outcome.at is not None:
        return to_micros(s.outcome.at)
    return moment + round((s.outcome.after or 0) * MICROS_PER_SECOND)
