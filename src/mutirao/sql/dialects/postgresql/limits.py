"""Limits on PostgreSQL: asking on where some jobs were parked, and hearing where others came back.

What is decided, and under which locks, is in the functions of the migration.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, TextClause

from mutirao.job import Claim, Lane, Wake
from mutirao.limit import Claimed, Settled, lowered
from mutirao.sql.dialects.postgresql import statements
from mutirao.sql.instant import from_micros

SEPARATOR = "\x1e"
MOST_ROUNDS = 1_000  # of a claim
LOOK = 1_000  # jobs that are looked at together, to park those that cannot run


def columns(lanes: Sequence[Lane]) -> dict[str, Any]:
    """Return lanes as the arrays that claims take."""
    names = ("queues", "priorities", "run_ats", "ids")
    return dict(zip(names, map(list, zip(*lanes, strict=True)), strict=True))


def asks_again(rows: Sequence[Any]) -> bool:
    """Tell whether the last row of a claim is no job, but says that there may be more."""
    return bool(rows) and rows[-1].id == 0


def claim_on(
    conn: Connection,
    values: dict[str, Any],
    lanes: Sequence[Lane],
    rows: Sequence[Any],
    claim: TextClause = statements.CLAIM,
) -> Claimed:
    """Go on claiming after `rows` until enough is found, or nothing is left to look at.

    Each statement is a transaction of its own: so it locks what it counts in order.
    """
    found, wanted, rounds = Claimed(), values["limit"], 0
    while asks_again(rows):
        found.extend(Claim._make(row) for row in rows[:-1])
        wakes, left, rounds = _parse(rows[-1].task), "*" in rows[-1].task, rounds + 1
        if len(found) >= wanted or rounds == MOST_ROUNDS:
            asked = [Wake(lane.queue, lane.priority, lane.run_at) for lane in lanes]
            found.woken = (*wakes, *(asked if left or rounds == MOST_ROUNDS else ()))
            return found
        lanes = lowered(lanes, wakes)
        look = values | columns(lanes) | {"look": LOOK}
        lanes = lowered(lanes, _parse(conn.execute(statements.SIFT, look).scalar()))
        ask = values | columns(lanes) | {"limit": wanted - len(found)}
        rows = conn.execute(claim, ask).all()
    found.extend(Claim._make(row) for row in rows)
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
