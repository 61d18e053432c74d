"""Fairness: take due jobs of a lane in rounds over the values of an argument.

Each small statement is one descent of an index.
"""

from collections import deque
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

from mutirao.model.jobs.job import Lane
from mutirao.model.limits.fairness import is_fair
from mutirao.sql.drivers.steps import Execute, Query, Reply, Rows, all_of, pipelined
from mutirao.sql.rules.base import Claims, in_lane_order
from mutirao.sql.rules.words import Words

SMALLEST_INTEGER = -1 << 63
MAX_ROWS_PER_READ = 500  # rows of one query

_SERVED = "SELECT fairness FROM mutirao_fairness_served WHERE worker = 0 AND lane = ?"
_SERVED_LAST = f"coalesce(({_SERVED}), '')"
# The first jobs of the next values, due or not: no more are read where many are not due.
_NEXT = """
SELECT {0}, priority, run_at, id {1} AND queue = ? AND {2}{3}
ORDER BY {0}, priority, run_at, id LIMIT ?
"""
_PRIORITY = """
SELECT priority {1} AND queue = ? AND {0} = ? AND priority > ? ORDER BY priority LIMIT 1
"""
_LINE = """
SELECT id, run_at {1} AND queue = ? AND {0} = ? AND priority = ? AND {2} AND run_at <= ?{3}
ORDER BY run_at, id LIMIT ?
"""


@dataclass(slots=True)
class Turns:
    """The last turn in each lane of fair jobs."""

    words: Words
    asked: dict[str, Reply]
    noted: dict[str, str] = field(default_factory=dict)
    ahead: "dict[str, _Peeked]" = field(default_factory=dict)

    def served(self, lane: str) -> str:
        """Return the value that was served last; empty: none."""
        if lane not in self.noted:
            rows = self.asked[lane].rows
            self.noted[lane] = rows[0][0] if rows else ""
        return self.noted[lane]

    def note(self, lane: str, values: Sequence[str]) -> Query[None]:
        """Record the value of the last of these jobs, if this is a lane of fair jobs."""
        if not values or not is_fair(lane):
            return
        self.noted[lane] = values[-1]
        columns = ("worker", "lane", "fairness")
        sql = self.words.upsert("mutirao_fairness_served", columns, columns[:2], columns[2:])
        yield Execute(sql, (0, lane, values[-1]), answers=False)


@dataclass(frozen=True, slots=True)
class _Peeked:
    """So many of a lane's first jobs, after the one served last, and up to that from the first.

    They were asked for before it was known whose turn that was: so that costs no round trip.
    """

    after: Reply
    around: Reply
    size: int


def turns(
    words: Words, lanes: Iterable[Lane], most: int = 0, without: Collection[str] = ()
) -> Query[Turns]:
    """Ask whose turn came last in each of these lanes; it is known after the next question.

    Where rows are locked, and the first lane is one of fair jobs, so many of its first jobs are
    asked for, too.
    """
    found = Turns(words, {})
    for n, lane in enumerate(lanes):
        if not is_fair(lane.queue) or lane.queue in found.asked:
            continue
        found.asked[lane.queue] = yield from pipelined(Execute(_SERVED, (lane.queue,)))
        if n == 0 and words.locks and most:
            size = min(most, MAX_ROWS_PER_READ)
            ask = partial(_Place(words, lane.queue, without, 0).reading, _NEXT, lane.queue)
            after, until = (f"{words.turn} {sign} {_SERVED_LAST}" for sign in (">", "<="))
            found.ahead[lane.queue] = _Peeked(
                after=(yield from pipelined(ask(since=after, most=size))),
                around=(yield from pipelined(ask(since=until, most=size))),
                size=size,
            )
    return found


def due(
    turns: Turns, lane: str, most: int, without: Collection[str], moment: int
) -> Query[dict[int, str]]:
    """Return due jobs of a lane, each with its value: one of each value, round after round.

    They are not locked.
    """
    place = _Place(turns.words, lane, without, moment)
    values = _Values(place, turns.served(lane), ahead=turns.ahead.pop(lane, None))
    lines, taken = list[_Line](), dict[int, str]()
    while len(taken) < most and not values.ended:
        some = yield from values.some(-(-most // (1 + len(lines))))
        lines += yield from _round(some, most, taken)
    while len(taken) < most and lines:
        lines = yield from _round(lines, most, taken)
    return taken


def _round(lines: "list[_Line]", most: int, taken: dict[int, str]) -> "Query[list[_Line]]":
    """Take one of each line, up to `most` in all; return those that had one."""
    behind = list[_Line]()
    for line in lines:
        if len(taken) < most and (id := (yield from line.next())) is not None:
            taken[id] = line.value
            behind.append(line)
    return behind


def in_order(claims: Claims, lanes: Sequence[Lane], taken: Sequence[int]) -> Claims:
    """Sort claims, in place: as `in_lane_order`, or as they were taken if some took turns."""
    if not any(is_fair(lane.queue) for lane in lanes):
        return in_lane_order(claims, lanes)
    place = {id: n for n, id in enumerate(taken)}
    claims.sort(key=lambda claim: place[claim.id])
    return claims


@dataclass(frozen=True, slots=True)
class _Place:
    """A lane, and which of its jobs are looked for: of other tasks than `without`, due by now."""

    words: Words
    lane: str
    without: Collection[str]
    moment: int

    def reading(
        self, sql: str, *values: object, since: str = "", most: int | None = None
    ) -> Execute:
        """Return a statement about it, with its values; `since` is added where it names one."""
        words = self.words
        index = words.by_index("mutirao_live_fairness")
        table = f"FROM mutirao_live {index} WHERE worker IS NULL AND {words.has_turn}"
        unwanted, tasks = but(words, self.without) if most is not None else ("", ())
        last = () if most is None else (*tasks, most)
        return Execute(sql.format(words.turn, table, since, unwanted), (self.lane, *values, *last))


@dataclass(slots=True)
class _Values:
    """The values after the one that was served last, and then from the first on.

    `at`: where they go on; `around`: whether they began from the first; `ended`: none is left.
    """

    place: _Place
    served: str
    at: str = ""
    around: bool = False
    ended: bool = False
    ahead: _Peeked | None = None

    def __post_init__(self) -> None:
        """Begin."""
        self.at, self.around = self.served, not self.served

    def some(self, size: int) -> "Query[list[_Line]]":
        """Return the lines of some values, with the first so many jobs of each, read at once."""
        size = min(size, MAX_ROWS_PER_READ) if self.ahead is None else self.ahead.size
        lines = list[_Line]()
        for rows in (yield from self._parts(size)):
            lines += self._lines(rows, whole=len(rows) < size)
            if len(rows) == size:
                self.at = rows[-1][0]
                return lines
            self.ended = self.around
            self.at, self.around = "", True
        return lines

    def _parts(self, size: int) -> Query[list[Rows]]:
        """Return the rows that come next, and where they do not begin from the first, the first."""
        if (ahead := self.ahead) is not None:
            self.ahead = None
            parts = [ahead.after.rows, ahead.around.rows]
            return parts[:1] if self.around else parts
        asked = [self._reading(self.at, size, around=self.around)]
        if not self.around:
            asked.append(self._reading("", size, around=True))
        return (yield from all_of(asked))

    def _reading(self, since: str, size: int, *, around: bool) -> Execute:
        turn = self.place.words.turn
        if around and self.served:
            between = f"{turn} > ? AND {turn} <= ?"
            return self.place.reading(_NEXT, since, self.served, since=between, most=size)
        return self.place.reading(_NEXT, since, since=f"{turn} > ?", most=size)

    def _lines(self, rows: Rows, *, whole: bool) -> "list[_Line]":
        jobs: dict[str, Rows] = {}
        for value, *job in rows:
            jobs.setdefault(value, []).append(tuple(job))
        lines = [_Line(self.place, value, len(rows)) for value in jobs]
        for line in lines:
            line.begin(jobs[line.value], whole=whole or line is not lines[-1])
        return lines


@dataclass(slots=True)
class _Line:
    """The ids of one value's due jobs, the most urgent priority first.

    `most`: how many are read at once, at first.
    """

    place: _Place
    value: str
    most: int
    priority: int | None = None  # None: nothing is left to be read
    size: int = 0  # of what is read next; 0: the next priority has to be looked for
    at: tuple[int, int] = (SMALLEST_INTEGER, 0)
    read: deque[int] = field(default_factory=deque)

    def begin(self, jobs: Rows, *, whole: bool) -> None:
        """Take its first jobs: a priority, a time and an id each. `whole`: there are no others."""
        late: int | None = None
        for priority, run_at, id in jobs:
            if run_at > self.place.moment:
                late = priority
            elif priority != late:
                self.read.append(id)
        if not whole:
            self.priority, *at = jobs[-1]
            self.at, self.size = (at[0], at[1]), 0 if self.priority == late else self.most

    def next(self) -> Query[int | None]:
        """Return the next id; None after the last."""
        while not self.read:
            if self.priority is None:
                return None
            yield from self._read_on() if self.size else self._next_priority()
        return self.read.popleft()

    def _next_priority(self) -> Query[None]:
        rows = yield self.place.reading(_PRIORITY, self.value, self.priority)
        self.priority = rows[0][0] if rows else None
        self.at, self.size = (SMALLEST_INTEGER, 0), self.most

    def _read_on(self) -> Query[None]:
        run_at, last = self.at
        since, place = self.place.words.since(run_at, last + 1)
        rows = yield self.place.reading(
            _LINE,
            self.value,
            self.priority,
            *place,
            self.place.moment,
            since=since,
            most=self.size,
        )
        self.read.extend(row[0] for row in rows)
        if len(rows) < self.size:
            self.size = 0
        else:
            self.at, self.size = (rows[-1][1], rows[-1][0]), min(2 * self.size, MAX_ROWS_PER_READ)


def but(words: Words, without: Collection[str]) -> tuple[str, tuple[str, ...]]:
    """Return the condition that a live row is of none of these tasks, and its values."""
    if not without:
        return "", ()
    which, values = words.among("j.task", without)
    task = f"SELECT 1 FROM mutirao_job j WHERE j.id = mutirao_live.id AND {which}"
    return f" AND NOT EXISTS ({task})", values
