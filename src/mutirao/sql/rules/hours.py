"""The sums of attempts for each hour, so that views need not read the whole history.

Where transactions that end attempts run concurrently, `Words.closed` returns until when all have
ended.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from mutirao.model.jobs.hours import (
    FAILED_OUTCOME_NAMES,
    MAX_ERROR_CHARACTERS,
    Ended,
    FailureGroup,
    Failures,
    Hour,
    by_failure,
    by_hour,
    finished_jobs,
)  # fmt: skip
from mutirao.model.jobs.states import OutcomeKind
from mutirao.model.row_json import UnreadableRow, read_object
from mutirao.sql.drivers.steps import Execute, Query, Row, command, execute_many
from mutirao.sql.rules.words import Words
from mutirao.sql.schema.types import MICROS_PER_SECOND

# Attempts of each outcome in a transaction, which keeps other writers waiting.
MAX_ATTEMPTS_PER_ROLL_UP = 10_000
LATE_ATTEMPT_MICROS = 60 * MICROS_PER_SECOND  # that are left for attempts which come late
BEFORE_ALL_MICROS = -(1 << 63)
_DURATION = re.compile(r"\d\.\de[+-]\d\d\d?").fullmatch

_OUTCOMES = ", ".join(f"'{kind}'" for kind in OutcomeKind)
_UNTIL = "SELECT until FROM mutirao_rolled"
_BEGIN = "INSERT INTO mutirao_rolled (until, closing, seen) VALUES (?, ?, '')"
_ROLLED = "UPDATE mutirao_rolled SET until = ?, closing = ?"
_FAR = "SELECT min(far) FROM ({}) slices".format(
    " UNION ALL ".join(
        f"""SELECT (
            SELECT finished_at + 1 FROM mutirao_attempt
            WHERE outcome = '{kind}' AND finished_at >= ? AND finished_at < ?
            ORDER BY finished_at LIMIT 1 OFFSET {MAX_ATTEMPTS_PER_ROLL_UP}
        ) AS far"""
        for kind in OutcomeKind
    )
)
_ANYTHING = f"""
SELECT EXISTS (
    SELECT 1 FROM mutirao_attempt
    WHERE outcome IN ({_OUTCOMES}) AND finished_at >= ? AND finished_at < ?
) OR EXISTS (SELECT 1 FROM mutirao_attempt WHERE came_late)
"""
_ENDED = f"""
SELECT j.queue, j.task, e.job, e.run, e.outcome, e.started_at, e.finished_at, e.error_type,
       substr(e.error, 1, {MAX_ERROR_CHARACTERS}) AS error
FROM (
    SELECT * FROM mutirao_attempt
    WHERE outcome IN ({_OUTCOMES})
      AND finished_at >= ? AND finished_at < ? AND came_late IS NULL
    UNION ALL
    SELECT * FROM mutirao_attempt WHERE came_late
) e CROSS JOIN mutirao_job j ON j.id = e.job
"""
_CAUGHT_UP = "UPDATE mutirao_attempt SET came_late = NULL WHERE came_late"
_FAILED_BEFORE = f"""
SELECT job, run, error_type, substr(error, 1, {MAX_ERROR_CHARACTERS}) FROM mutirao_attempt
WHERE outcome IN ({", ".join(f"'{kind}'" for kind in FAILED_OUTCOME_NAMES)}) AND """
_HOUR = """
SELECT seconds, durations FROM mutirao_hour
WHERE hour = ? AND queue = ? AND task = ? AND outcome = ?
"""
_HOUR_KEY = ("hour", "queue", "task", "outcome")
_HOUR_SUMS = ("attempts", "seconds", "durations", "p50", "p95", "p99")
_ERROR = """
SELECT jobs, attempts, first_at, last_at FROM mutirao_error
WHERE task = ? AND error_type = ? AND message = ?
"""
_ERROR_SUMS = ("jobs", "attempts", "first_at", "last_at")
_INSERT_KEPT = "INSERT INTO mutirao_kept (queue, outcome, hour, jobs) VALUES (?, ?, ?, ?)"
_SEVERAL = """
SELECT queue, outcome, hour, sum(jobs) FROM mutirao_kept
GROUP BY queue, outcome, hour HAVING count(*) > 1 OR min(jobs) <= 0
"""
_NOT_SEVERAL = "DELETE FROM mutirao_kept WHERE queue = ? AND outcome = ? AND hour = ?"
_MANY = "SELECT count(*) FROM (SELECT 1 FROM mutirao_live LIMIT ?) few"
_LIVE = """
SELECT queue, state, jobs, oldest_age FROM mutirao_queues
WHERE state IN ('running', 'ready', 'scheduled', 'blocked')
"""
_BACKLOG = """
INSERT INTO mutirao_backlog (queue, state, jobs, since, counted_at) VALUES (?, ?, ?, ?, ?)
"""


def roll_up(words: Words, keep: float | None, now: datetime | None) -> Query[bool]:
    """Add up attempts that finished since the last time; return whether there is more.

    `keep`: seconds after which a sum is deleted; None: never.
    """
    latest = (yield from words.moment(now)) - LATE_ATTEMPT_MICROS
    until = yield from _until()
    [(far,)] = yield Execute(_FAR, (until, latest) * len(OutcomeKind))
    # Only of this part: waiting for all that is left would read it again each time.
    closing = max(until, (yield from words.closed(until, latest if far is None else far)))
    if (yield Execute(_ANYTHING, (until, closing)))[0][0]:
        yield from _add_up(words, until, closing)
    yield from _balance()
    if keep is not None:
        before = words.shown(latest - round(keep * MICROS_PER_SECOND))
        yield Execute("DELETE FROM mutirao_hour WHERE hour < ?", (before,), answers=False)
        yield Execute("DELETE FROM mutirao_error WHERE last_at < ?", (before,), answers=False)
    return far is not None and closing > until


def count_backlog(words: Words, most: int, now: datetime | None) -> Query[None]:
    """Count live jobs for the next minutes if there are more than `most`."""
    moment = yield from words.moment(now)
    yield command("DELETE FROM mutirao_backlog")
    [(number,)] = yield Execute(_MANY, (most + 1,))
    if number > most:
        rows = yield Execute(_LIVE)
        since = [
            None if age is None else moment - round(age * MICROS_PER_SECOND) for *_, age in rows
        ]
        counted = [(*row[:3], at, moment) for row, at in zip(rows, since, strict=True)]
        yield from _write(_BACKLOG, counted)


def _until() -> Query[int]:
    rows = yield Execute(_UNTIL)
    if not rows:
        yield Execute(_BEGIN, (BEFORE_ALL_MICROS, BEFORE_ALL_MICROS), answers=False)
    return rows[0][0] if rows else BEFORE_ALL_MICROS


def _add_up(words: Words, until: int, closing: int) -> Query[None]:
    rows = yield Execute(_ENDED, (until, closing))
    ended = [Ended(*row) for row in rows]
    yield from _add_hours(words, by_hour(ended))
    kept = finished_jobs(ended)
    yield from _write(_INSERT_KEPT, [(*key, jobs) for key, jobs in kept.items()])
    yield from _add_errors(words, [one for one in ended if one.outcome in FAILED_OUTCOME_NAMES])
    yield command(_CAUGHT_UP)
    yield Execute(_ROLLED, (closing, closing), answers=False)


def _add_hours(words: Words, sums: dict[tuple[int, str, str, str], Hour]) -> Query[None]:
    rows = list[Row]()
    for (hour, *names), added in sums.items():
        key = (words.shown(hour), *names)
        for seconds, durations in (yield Execute(_HOUR, key)):
            added.seconds += seconds
            added.durations += _counted(durations)
        rows.append((*key, *_sums(added)))
    yield execute_many(
        words.upsert("mutirao_hour", (*_HOUR_KEY, *_HOUR_SUMS), _HOUR_KEY, _HOUR_SUMS), rows
    )


def _counted(durations: Any) -> Counter[str]:
    """Return how often each duration was counted; nothing, if something else was written there."""
    try:
        counts = read_object(durations)
    except UnreadableRow:
        return Counter()
    return Counter({name: n for name, n in counts.items() if type(n) is int and _DURATION(name)})


def _sums(hour: Hour) -> Row:
    shares = [hour.percentile(share) for share in (0.5, 0.95, 0.99)]
    return (hour.attempts, hour.seconds, json.dumps(hour.durations), *shares)


def _add_errors(words: Words, failed: Sequence[Ended]) -> Query[None]:
    if not failed:
        return
    which, values = words.among("job", {one.job for one in failed})
    before = yield Execute(_FAILED_BEFORE + which, values)
    rows = list[Row]()
    for failure, added in by_failure(failed, before).items():
        known = yield Execute(_ERROR, failure)
        rows.append((*failure, *_with(words, added, known)))
    columns = (*FailureGroup._fields, *_ERROR_SUMS)
    yield execute_many(
        words.upsert("mutirao_error", columns, FailureGroup._fields, _ERROR_SUMS), rows
    )


def _with(words: Words, added: Failures, known: Iterable[Row]) -> Row:
    """Return the sums of a row: the old ones plus the new ones."""
    first, last = words.shown(added.first_at), words.shown(added.last_at)
    for jobs, attempts, first_at, last_at in known:
        added.jobs, added.attempts = added.jobs + jobs, added.attempts + attempts
        first, last = min(first, first_at), max(last, last_at)
    return (added.jobs, added.attempts, first, last)


def _balance() -> Query[None]:
    """Replace the entries of the journal of finished jobs by one for each hour."""
    rows = yield Execute(_SEVERAL)
    yield from _write(_NOT_SEVERAL, [row[:3] for row in rows])
    yield from _write(_INSERT_KEPT, [row for row in rows if row[3]])


def _write(sql: str, rows: Sequence[Row]) -> Query[None]:
    if rows:
        yield execute_many(sql, rows)
