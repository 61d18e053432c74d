"""Limits on PostgreSQL: claims within them, repeated after jobs were parked.

The functions of the migration decide, and take the locks.
"""

import logging
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from mutirao.model.jobs.job import Claim, Lane, Wake
from mutirao.model.limits.claims_and_wakes import Claimed, Settled, lowered
from mutirao.sql.dialects.postgresql import statements
from mutirao.sql.drivers.failures import translated, was_undone
from mutirao.sql.drivers.steps import Autocommits, Execute, Query, Rows
from mutirao.sql.schema.types import from_micros

_ID = Claim._fields.index("id")


class ClaimRequest(NamedTuple):
    """The parameters of a claim; `sql` is its statement."""

    sql: str
    worker: int
    lanes: Sequence[Lane]
    limit: int
    without: list[str] | None
    now: datetime | None

    def statement(self) -> Execute:
        """Return the statement with its values."""
        values = (self.worker, *map(as_array, self.columns()), self.limit, self.without, self.now)
        return Execute(self.sql, values)

    def columns(self) -> Iterator[list[Any]]:
        """Return the lanes as the statement takes them: a list for each of their facts."""
        return map(list, zip(*self.lanes, strict=True))


def as_array(values: Iterable[object]) -> str:
    """Return values, of which there are some, as the text of an SQL array; each is quoted.

    A driver that takes lists looks at each value first, which is longer (psycopg: a tenth of what
    an idle worker does between a wake-up and its claim).
    """
    quoted = [str(value).replace("\\", r"\\").replace('"', r"\"") for value in values]
    return '{"' + '","'.join(quoted) + '"}'


def asks_again(rows: Rows) -> bool:
    """Return whether the last row of an answer is no job, but says that limits left some out."""
    return bool(rows) and rows[-1][_ID] == 0


log = logging.getLogger("mutirao")

SEPARATOR = "\x1e"
MAX_CLAIM_ROUNDS = 1_000  # of a claim
# Of one that has found something: a backlog that is parked meanwhile does not keep that waiting.
MAX_ROUNDS_WITH_JOBS = 4
LOOK_AHEAD_JOBS = 1_000  # jobs that are read at once, to park those that cannot run
_TASK = Claim._fields.index("task")


def claim_on(request: ClaimRequest, rows: Rows) -> Query[Claimed]:
    """Go on claiming after `rows` until enough is found, or nothing is left to look at.

    As a rule each statement is a transaction of its own: so it locks what it counts in order. What
    was claimed before one that the database gave up for others, or because of a lock, stays
    claimed: it is returned, and the rest is left to the next claim. Where all are one transaction,
    because sessions have another isolation level by default, it is undone: the error is raised.
    """
    found, lanes, rounds = Claimed(), request.lanes, 0
    while asks_again(rows):
        found.extend(map(Claim._make, rows[:-1]))
        again = rows[-1][_TASK]
        wakes, left, rounds = _parse(again), "*" in again, rounds + 1
        enough = rounds >= (MAX_ROUNDS_WITH_JOBS if found else MAX_CLAIM_ROUNDS)
        if len(found) >= request.limit or enough:
            found.woken = (*wakes, *(_asked(lanes) if left or enough else ()))
            return found
        lanes = lowered(lanes, wakes)
        try:
            [(sifted,)] = yield sifting(request._replace(lanes=lanes))
            lanes = lowered(lanes, _parse(sifted))
            rows = yield request._replace(lanes=lanes, limit=request.limit - len(found)).statement()
        except Exception as error:
            if not found or not was_undone(error):
                raise
            [(autocommits,)] = yield Autocommits()
            if not autocommits:
                raise
            log.warning("the rest is claimed later: %s", translated(error))
            found.woken = _asked(lanes)
            return found
    found.extend(map(Claim._make, rows))
    return found


def _asked(lanes: Sequence[Lane]) -> tuple[Wake, ...]:
    return tuple(Wake(lane.queue, lane.priority, lane.run_at) for lane in lanes)


def sifting(request: ClaimRequest) -> Execute:
    """Return the statement that parks what cannot run of a claim's lanes."""
    values = (*request.columns(), LOOK_AHEAD_JOBS, request.without, request.now)
    return Execute(statements.SIFT, values)


def called(settled: set[int], lanes: str | None) -> set[int]:
    """Return settled ids, with the lanes that other jobs were called back to."""
    if not lanes:
        return settled
    found = Settled(settled)
    found.woken = _parse(lanes)
    return found


def _parse(lanes: str | None) -> tuple[Wake, ...]:
    words = [lane.split(" ", 2) for lane in (lanes or "").split(SEPARATOR) if lane not in ("", "*")]
    return tuple(Wake(queue, int(prio), from_micros(int(at))) for prio, at, queue in words)
