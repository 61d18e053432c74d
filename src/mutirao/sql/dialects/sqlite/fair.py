"""Turns on SQLite: small statements, each one hop through the index, and `mutirao.fair`."""

import json
from collections.abc import Collection, Iterator, Sequence

from sqlalchemy import Connection

from mutirao.fair import is_fair, take_turns
from mutirao.job import Lane
from mutirao.sql.dialects.base import Claims, in_lane_order

FIRST = -1 << 63
MOST_AT_ONCE = 100  # rows of a line that are read together

_SERVED = "SELECT fair FROM mutirao_served WHERE worker = 0 AND lane = ?"
_NOTE = """
INSERT INTO mutirao_served (lane, fair) SELECT queue, fair FROM mutirao_live WHERE id = ?
ON CONFLICT (worker, lane) DO UPDATE SET fair = excluded.fair
"""
_FROM = "FROM mutirao_live INDEXED BY mutirao_live_fair WHERE worker IS NULL AND fair <> ''"
_NEXT = f"SELECT fair {_FROM} AND queue = ? AND fair > ? ORDER BY fair LIMIT 1"
_PRIORITY = f"""SELECT priority {_FROM} AND queue = ? AND fair = ? AND priority > ?
ORDER BY priority LIMIT 1"""
_LINE = f"""SELECT id, run_at {_FROM} AND queue = ? AND fair = ? AND priority = ?
AND (run_at, id) > (?, ?) AND run_at <= ? AND NOT EXISTS (
    SELECT 1 FROM mutirao_job j WHERE j.id = mutirao_live.id
    AND j.task IN (SELECT value FROM json_each(?))
)
ORDER BY run_at, id LIMIT ?"""  # noqa: S608


def due(conn: Connection, lane: str, most: int, without: Collection[str], moment: int) -> list[int]:
    """Return the ids of due jobs of a lane, in turn."""
    served: str = conn.exec_driver_sql(_SERVED, (lane,)).scalar() or ""
    lines = (
        _line(conn, lane, value, json.dumps(list(without)), moment)
        for value in _values(conn, lane, served)
    )
    return take_turns(lines, most)


def note(conn: Connection, lane: str, taken: Sequence[int]) -> None:
    """Note whose turn came last, if jobs take turns in this lane."""
    if taken and is_fair(lane):
        conn.exec_driver_sql(_NOTE, (taken[-1],))


def in_order(claims: Claims, lanes: Sequence[Lane], taken: Sequence[int]) -> Claims:
    """Sort claims, in place: as `in_lane_order`, or as they were taken if some took turns."""
    if not any(is_fair(lane.queue) for lane in lanes):
        return in_lane_order(claims, lanes)
    place = {id: n for n, id in enumerate(taken)}
    claims.sort(key=lambda claim: place[claim.id])
    return claims


def _values(conn: Connection, lane: str, served: str) -> Iterator[str]:
    """Yield the values after the one that was served last, and then from the first on."""
    for start, end in ((served, None), ("", served)):
        at: str | None = start
        while at is not None and (end is None or at < end):
            at = conn.exec_driver_sql(_NEXT, (lane, at)).scalar()
            if at is not None and (end is None or at <= end):
                yield at


def _line(conn: Connection, lane: str, value: str, without: str, moment: int) -> Iterator[int]:
    """Yield the ids of one value's due jobs, the most urgent priority first."""
    priority: int | None = FIRST
    while True:
        priority = conn.exec_driver_sql(_PRIORITY, (lane, value, priority)).scalar()
        if priority is None:
            return
        at, size = (FIRST, 0), 1
        while True:
            place = (lane, value, priority, *at, moment, without, size)
            rows = conn.exec_driver_sql(_LINE, place).all()
            if not rows:
                break
            yield from (row.id for row in rows)
            at, size = (rows[-1].run_at, rows[-1].id), min(2 * size, MOST_AT_ONCE)
