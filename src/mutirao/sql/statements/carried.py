"""Takes doorbells back from a broker; the same on every database."""

from collections.abc import Collection, Sequence
from datetime import datetime

from sqlalchemy import ColumnElement, Connection, Update, case, func, select

from mutirao.model.brokers.doorbell import Doorbell, rung_lane, unrung_lane
from mutirao.model.jobs.job import Lane
from mutirao.model.jobs.lanes import RUNG_LANE_PREFIX
from mutirao.model.limits.fairness import fair_lane
from mutirao.sql.dialects.base import Dialect
from mutirao.sql.schema.tables import live, next_run


def unring(conn: Connection, dialect: Dialect, doorbells: Collection[Doorbell]) -> set[int]:
    """Bring jobs back to their lanes whose doorbells no broker has."""
    runs = {bell.id: bell.run for bell in doorbells}
    lanes = {rung_lane(each) for bell in doorbells for each in _lanes(bell.queue)}
    found = conn.execute(
        select(live.c.id, live.c.run, live.c.queue)
        .where(dialect.among(live.c.id, sorted(runs)), live.c.worker.is_(None))
        .where(live.c.queue.in_(sorted(lanes)))
        .order_by(live.c.id)
        .with_for_update(skip_locked=True)
    ).all()
    current = [row for row in found if runs[row.id] == row.run]
    for lane in sorted({row.queue for row in current}):
        ids = [row.id for row in current if row.queue == lane]
        conn.execute(_back(dialect, lane, ids))
    return {row.id for row in current}


def recall(
    conn: Connection, dialect: Dialect, lane: Lane, before: datetime, limit: int
) -> Sequence[int]:
    """Bring jobs of a rung lane back with the next run that were rung before a moment."""
    ids = conn.scalars(
        select(live.c.id)
        .where(live.c.queue == lane.queue, live.c.priority == lane.priority)
        .where(live.c.worker.is_(None), live.c.run_at <= before)
        .order_by(live.c.run_at, live.c.id)
        .limit(limit)
        .with_for_update(skip_locked=True)
    ).all()
    if ids:
        conn.execute(_back(dialect, lane.queue, ids).values(run=next_run()))
    return ids


def own_lane() -> ColumnElement[str]:
    """Return the lane of a live row, as if no doorbell of it had been rung."""
    return case(
        (func.substr(live.c.queue, 1, 1) == RUNG_LANE_PREFIX, func.substr(live.c.queue, 2)),
        else_=live.c.queue,
    )


def _back(dialect: Dialect, lane: str, ids: Sequence[int]) -> Update:
    which = dialect.among(live.c.id, ids)
    return dialect.update_live().where(which).values(queue=unrung_lane(lane))


def _lanes(queue: str) -> tuple[str, str]:
    return queue, fair_lane(queue)
