"""Limits on PostgreSQL: asking on where some jobs were parked, and hearing where others came back.

What is decided, and under which locks, is in the functions of the migration.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from mutirao.job import Claim, Lane, Wake
from mutirao.limit import Claimed, Settled, lowered
from mutirao.sql.callers.steps import Asking, Execute, Rows
from mutirao.sql.dialects.postgresql import statements
from mutirao.sql.instant import from_micros

SEPARATOR = "\x1e"
MOST_ROUNDS = 1_000  # of a claim
LOOK = 1_000  # jobs that are looked at together, to park those that cannot run
_ID, _TOLD = Claim._fields.index("id"), Claim._fields.index("task")


class Ask(NamedTuple):
    """A claim, or a look at the same lanes, as it is asked for once more."""

    sql: str
    worker: int
    lanes: Sequence[Lane]
    limit: int
    without: list[str] | None
    now: datetime | None

    def request(self) -> Execute:
        """Return the claim's statement."""
        values = (self.worker, *self._columns(), self.limit, self.without, self.now)
        return Execute(self.sql, values)

    def sifting(self) -> Execute:
        """Return the statement that parks what cannot run."""
        return Execute(statements.SIFT, (*self._columns(), LOOK, self.without, self.now))

    def _columns(self) -> Iterator[list[Any]]:
        return map(list, zip(*self.lanes, strict=True))


def asks_again(rows: Rows) -> bool:
    """Tell whether the last row of a claim is no job, but says that there may be more."""
    return bool(rows) and rows[-1][_ID] == 0


def claim_on(ask: Ask, rows: Rows) -> Asking[Claimed]:
    """Go on claiming after `rows` until enough is found, or nothing is left to look at.

    Each statement is a transaction of its own: so it locks what it counts in order.
    """
    found, lanes, rounds = Claimed(), ask.lanes, 0
    while asks_again(rows):
        found.extend(map(Claim._make, rows[:-1]))
        told = rows[-1][_TOLD]
        wakes, left, rounds = _parse(told), "*" in told, rounds + 1
        if len(found) >= ask.limit or rounds == MOST_ROUNDS:
            asked = [Wake(lane.queue, lane.priority, lane.run_at) for lane in lanes]
            found.woken = (*wakes, *(asked if left or rounds == MOST_ROUNDS else ()))
            return found
        lanes = lowered(lanes, wakes)
        [(sifted,)] = yield ask._replace(lanes=lanes).sifting()
        lanes = lowered(lanes, _parse(sifted))
        rows = yield ask._replace(lanes=lanes, limit=ask.limit - len(found)).request()
    found.extend(map(Claim._make, rows))
    return found


def called(settled: set[int], lanes: str | None) -> set[int]:
    """Return settled ids, with the lanes that other jobs were called back to."""
    if not lanes:
        return settled
    told = Settled(settled)
    told.woken = _parse(lanes)
    return told


def _parse(lanes: str | None) -> tuple[Wake, ...]:
    words = [lane.split(" ", 2) for lane in (lanes or "").split(SEPARATOR) if lane not in ("", "*")]
    return tuple(Wake(queue, int(prio), from_micros(int(at))) for prio, at, queue in words)
