"""Parks jobs behind the counter of a full limit, outside their lanes, and brings them back.

Times are in microseconds. The callers have locked the counters.
"""

from collections.abc import Sequence
from itertools import takewhile
from operator import itemgetter

from mutirao.model.keys.uniqueness import PARKED
from mutirao.model.limits.fairness import shared
from mutirao.model.limits.limits import Rule, next_look
from mutirao.sql.drivers.steps import Execute, Query, Row, Rows, all_of, execute_many
from mutirao.sql.rules.counters import Counter
from mutirao.sql.rules.words import Words
from mutirao.sql.schema.types import MICROS_PER_SECOND, to_micros

PARKED_MICROS = to_micros(PARKED)
COLUMNS = ("job", "counter", "priority", "run_at", "late")

_LATE_NEXT = "UPDATE mutirao_counter SET late_next = ? WHERE id = ?"
_FIRST = """
SELECT * FROM (
    SELECT job, run_at, priority, late FROM mutirao_parked WHERE counter = ? AND late = ?
    ORDER BY priority, run_at, job LIMIT ?
) AS {}
"""
_NEXT = f"""
SELECT p.job, p.run_at, l.queue, p.priority, l.id, p.late FROM (
    {_FIRST.format("others")} UNION ALL {_FIRST.format("late")}
) AS p LEFT JOIN mutirao_live l ON l.id = p.job AND l.worker IS NULL
ORDER BY p.priority, p.run_at, p.job
"""
_PRIORITY, _LIVE = 3, 4  # columns of _NEXT
MOST_GONE = 500  # parked jobs that are looked at together, after one that was gone

Place = tuple[str, int, int]  # a lane, by queue and priority, and when a job in it is due


def park(words: Words, jobs: Sequence[Row]) -> Query[None]:
    """Put jobs out of their lanes, each behind a counter: the values of `COLUMNS`."""
    yield execute_many(words.upsert("mutirao_parked", COLUMNS, ("job",), ("counter",)), jobs)
    yield words.move([(PARKED_MICROS, job) for job, *_ in jobs])


def bring_back(words: Words, asked: Sequence[tuple[Counter, int]]) -> Query[list[Place]]:
    """Bring back up to so many jobs of each counter; return their places. Forget the gone."""
    places = list[Place]()
    while asked := [(counter, most) for counter, most in asked if most > 0]:
        answers = yield from all_of([_first(counter, most) for counter, most in asked])
        found = [_merged(*of, rows) for of, rows in zip(asked, answers, strict=True)]
        live = [row[0] for rows, _ in found for row in rows if row[_LIVE] is not None]
        there = yield from words.hold_jobs(live, free=True)
        called, left = list[Row](), list[tuple[Counter, int]]()
        for (counter, most), (rows, mixed) in zip(asked, found, strict=True):
            some = [row for row in rows if row[_LIVE] is None or row[0] in there]
            if mixed and some:
                counter.late_next = (counter.late_next + len(some)) % 2
                yield Execute(_LATE_NEXT, (counter.late_next, counter.id), answers=False)
            if some and len(rows) == most:  # else there are no others, or others have them
                left.append((counter, most - sum(row[_LIVE] is not None for row in some)))
            called += some
        places += yield from _put_back(words, called)
        asked = left
    return places


def _put_back(words: Words, called: Sequence[Row]) -> Query[list[Place]]:
    if called:
        yield from words.drop("mutirao_parked", [row[0] for row in called])
    waiting = [row for row in called if row[_LIVE] is not None]
    if waiting:
        yield words.move([(run_at, job) for job, run_at, *_ in waiting])
    return [(queue, priority, run_at) for _, run_at, queue, priority, *_ in waiting]


def send_ahead(words: Words, counter: Counter, rule: Rule, moment: int) -> Query[list[Place]]:
    """Make the first parked job due when there will be a token; return its place then."""
    first = yield from _first_waiting(words, counter)
    at, places = None, list[Place]()
    if first is not None and rule.most > 0:
        at = moment + int(next_look(rule, counter.filled(rule, moment)) * MICROS_PER_SECOND) + 1
        job, _, queue, priority, *_ = first
        yield words.move([(at, job)])
        places.append((queue, priority, at))
    sql = "UPDATE mutirao_counter SET probe_at = ? WHERE id = ?"
    yield Execute(sql, (at, counter.id), answers=False)
    return places


def _first_waiting(words: Words, counter: Counter) -> Query[Row | None]:
    """Return the first parked job that still waits; forget those before it, which do not.

    One that was sent ahead is taken from its lane, where it is due, and stays parked: if it was
    sent ahead again after its end, nobody would be.
    """
    most = 1
    while rows := _merged(counter, most, (yield _first(counter, most)))[0]:
        gone = [row[0] for row in takewhile(lambda row: row[_LIVE] is None, rows)]
        if gone:
            yield from words.drop("mutirao_parked", gone)
        if len(gone) < len(rows):
            return rows[len(gone)]
        most = MOST_GONE
    return None


def _first(counter: Counter, most: int) -> Execute:
    """Return the question for the first parked jobs of a counter, late ones and others."""
    return Execute(_NEXT, (counter.id, False, most, counter.id, True, most))


def _merged(counter: Counter, most: int, rows: Rows) -> tuple[Rows, bool]:
    """Return the parked jobs that a counter calls next, and whether late ones and others wait.

    If they do, every other one is late.
    """
    late, others = [row for row in rows if row[-1]], [row for row in rows if not row[-1]]
    if not late or not others:
        return [*rows], False
    merged = shared(others, late, counter.late_next)
    return sorted(merged, key=itemgetter(_PRIORITY))[:most], True
