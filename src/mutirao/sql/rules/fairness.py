"""Fairness: take due jobs of a lane in rounds over the values of an argument.

Each small statement is one descent of an index.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from mutirao.model.fairness import is_fair
from mutirao.model.job import Lane
from mutirao.sql.drivers.steps import Asking, Execute
from mutirao.sql.rules.base import Claims, in_lane_order
from mutirao.sql.rules.words import Words

SMALLEST_INTEGER = -1 << 63
MAX_ROWS_PER_READ = 100  # rows of a line that are read together

_SERVED = "SELECT fairness FROM mutirao_fairness_served WHERE worker = 0 AND lane = ?"
_LAST = "SELECT queue, fairness FROM mutirao_live WHERE id = ?"
_NEXT = "SELECT {0} {1} AND queue = ? AND {0} > ? ORDER BY {0} LIMIT 1"
_PRIORITY = """
SELECT priority {1} AND queue = ? AND {0} = ? AND priority > ? ORDER BY priority LIMIT 1
"""
_LINE = """
SELECT id, run_at {1} AND queue = ? AND {0} = ? AND priority = ? AND {2} AND run_at <= ?{3}
ORDER BY run_at, id LIMIT ?
"""


def due(
    words: Words, lane: str, most: int, without: Collection[str], moment: int
) -> Asking[list[int]]:
    """Return the ids of due jobs of a lane: one of each value, round after round."""
    served = yield Execute(_SERVED, (lane,))
    values = _Values(words, lane, served[0][0] if served else "")
    lines, taken = list[_Line](), list[int]()
    while len(taken) < most and (value := (yield from values.next())) is not None:
        line = _Line(words, lane, value, without, moment)
        if (id := (yield from line.next())) is not None:
            taken.append(id)
            lines.append(line)
    while len(taken) < most and lines:
        behind = list[_Line]()
        for line in lines:
            if len(taken) < most and (id := (yield from line.next())) is not None:
                taken.append(id)
                behind.append(line)
        lines = behind
    free = yield from words.hold_jobs(taken, free=True, due=(lane, moment))
    return [id for id in taken if id in free]


def note(words: Words, lane: str, taken: Sequence[int]) -> Asking[None]:
    """Record the value that was served last, if this is a lane of fair jobs."""
    if not taken or not is_fair(lane):
        return
    [(queue, value)] = yield Execute(_LAST, (taken[-1],))
    columns = ("worker", "lane", "fairness")
    sql = words.upsert("mutirao_fairness_served", columns, ("worker", "lane"), ("fairness",))
    yield Execute(sql, (0, queue, value), answers=False)


def in_order(claims: Claims, lanes: Sequence[Lane], taken: Sequence[int]) -> Claims:
    """Sort claims, in place: as `in_lane_order`, or as they were taken if some took turns."""
    if not any(is_fair(lane.queue) for lane in lanes):
        return in_lane_order(claims, lanes)
    place = {id: n for n, id in enumerate(taken)}
    claims.sort(key=lambda claim: place[claim.id])
    return claims


def _from(words: Words) -> str:
    index = words.by_index("mutirao_live_fairness")
    return f"FROM mutirao_live {index} WHERE worker IS NULL AND {words.has_turn}"


@dataclass(slots=True)
class _Values:
    """The values after the one that was served last, and then from the first on."""

    words: Words
    lane: str
    served: str
    at: str | None = None
    around: bool = False  # whether they began from the first

    def next(self) -> Asking[str | None]:
        """Return the next value; None after the last."""
        sql = _NEXT.format(self.words.turn, _from(self.words))
        while True:
            since = ("" if self.around else self.served) if self.at is None else self.at
            rows = yield Execute(sql, (self.lane, since))
            if rows and not (self.around and rows[0][0] > self.served):
                self.at = rows[0][0]
                return self.at
            if self.around or not self.served:
                return None
            self.around, self.at = True, None


@dataclass(slots=True)
class _Line:
    """The ids of one value's due jobs, the most urgent priority first."""

    words: Words
    lane: str
    value: str
    without: Collection[str]
    moment: int
    priority: int | None = SMALLEST_INTEGER
    size: int = 0  # of what was read last; 0: the next priority has to be looked for
    at: tuple[int, int] = (SMALLEST_INTEGER, 0)
    read: list[int] = field(default_factory=list)

    def next(self) -> Asking[int | None]:
        """Return the next id; None after the last."""
        while not self.read:
            if self.priority is None:
                return None
            yield from self._read_on() if self.size else self._next_priority()
        return self.read.pop(0)

    def _next_priority(self) -> Asking[None]:
        sql = _PRIORITY.format(self.words.turn, _from(self.words))
        rows = yield Execute(sql, (self.lane, self.value, self.priority))
        self.priority = rows[0][0] if rows else None
        self.at, self.size = (SMALLEST_INTEGER, 0), 1

    def _read_on(self) -> Asking[None]:
        run_at, last = self.at
        since, place = self.words.since(run_at, last + 1)
        unwanted, values = but(self.words, self.without)
        sql = _LINE.format(self.words.turn, _from(self.words), since, unwanted)
        line = (self.lane, self.value, self.priority, *place, self.moment)
        rows = yield Execute(sql, (*line, *values, self.size))
        self.read = [row[0] for row in rows]
        if rows:
            self.at, self.size = (rows[-1][1], rows[-1][0]), min(2 * self.size, MAX_ROWS_PER_READ)
        else:
            self.size = 0


def but(words: Words, without: Collection[str]) -> tuple[str, tuple[str, ...]]:
    """Return the condition that a live row is of none of these tasks, and its values."""
    if not without:
        return "", ()
    which, values = words.among("j.task", without)
    task = f"SELECT 1 FROM mutirao_job j WHERE j.id = mutirao_live.id AND {which}"
    return f" AND NOT EXISTS ({task})", values
