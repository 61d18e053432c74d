"""Rescue: record the runs of vanished workers as lost, and let their jobs wait again."""

from collections.abc import Collection, Sequence
from datetime import datetime

from mutirao.model.jobs.states import OutcomeKind
from mutirao.sql.drivers.steps import Execute, Query, Row
from mutirao.sql.rules import limits
from mutirao.sql.rules.settle import Held, held, write_attempts
from mutirao.sql.rules.words import Words

LAST_RUN = 2_147_483_647  # that fits other databases' columns; the next one is 1

_LOSE = """
UPDATE mutirao_live {} SET worker = NULL, claimed_at = NULL, run = run % 2147483647 + 1,
    lost = lost + 1
WHERE """
# A worker that was suspended may claim once more before it hears that it is gone: hence LEFT.
_EXPIRED = """
SELECT l.id, l.worker FROM mutirao_live l {} LEFT JOIN mutirao_worker w ON w.id = l.worker
WHERE l.worker IS NOT NULL AND (w.id IS NULL OR w.expires_at < ?) ORDER BY l.id
"""
_GONE = """
SELECT EXISTS (SELECT 1 FROM mutirao_worker WHERE expires_at < ?) OR EXISTS (
    SELECT 1 FROM mutirao_live l {}
    WHERE l.worker IS NOT NULL AND l.worker NOT IN (SELECT id FROM mutirao_worker)
) OR EXISTS (SELECT 1 FROM mutirao_counter)
"""


def is_anyone_gone(words: Words, now: datetime | None) -> Query[bool]:
    """Return whether `rescue` has anything to do; a reader keeps no writer waiting."""
    moment = yield from words.moment(now)
    [(found,)] = yield Execute(_GONE.format(words.by_index("mutirao_live_running")), (moment,))
    return bool(found)


def rescue(words: Words, now: datetime | None) -> Query[list[tuple[int, int]]]:
    """Give back the jobs of expired workers and remove those workers; orphans cost nothing."""
    moment = yield from words.moment(now)
    rows = yield Execute(_EXPIRED.format(words.by_index("mutirao_live_running")), (moment,))
    lost = list[Held]()
    if rows:
        theirs = {row[0]: row[1] for row in rows}
        found = yield from held(words, theirs, free=True)
        lost = sorted(row for id, row in found.items() if row.worker == theirs[id])
    if lost:
        yield from _lose(words, lost, moment)
    yield Execute("DELETE FROM mutirao_worker WHERE expires_at < ?", (moment,), answers=False)
    if (yield from limits.in_use()):
        yield from limits.mend(words, moment)
    return [(row.id, row.run % LAST_RUN + 1) for row in lost]


def lose(words: Words, jobs: Sequence[tuple[int, int]], now: datetime | None) -> Query[set[int]]:
    """Write down that runs were lost, and let those jobs wait again."""
    moment = yield from words.moment(now)
    found = yield from held(words, [id for id, _ in jobs])
    lost = [row for row in found.values() if (row.id, row.run) in jobs]
    if lost:
        yield from _lose(words, lost, moment)
        yield from limits.give_back(words, [row.id for row in lost], now)
    return {row.id for row in lost}


def _lose(words: Words, lost: Collection[Held], moment: int) -> Query[None]:
    """Write down that these runs were lost, and let the jobs wait for the next."""
    yield from write_attempts(words, [_lost_row(row, moment) for row in lost], moment)
    which, values = words.among("id", [row.id for row in lost])
    yield Execute(_LOSE.format(words.by_key) + which, values, answers=False)


def _lost_row(row: Held, moment: int) -> Row:
    return (
        *(row.id, row.run, row.attempt, row.worker, str(OutcomeKind.LOST)),
        *(
            row.claimed_at,
            moment,
            "WorkerLost",
            f"its worker's heartbeat stopped\nworker {row.worker}",
        ),
    )
