"""Releases deliveries that were held, in the order of their publications.

Workers make the deliveries of several publications concurrently, so these are due in the order in
which that ended. Deliveries that have waited behind a limit are sorted before they are released.
Those that were tried already wait separately, until their next attempt, and keep their places.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Select, and_, func, or_, select, update

from mutirao.model.webhooks.endpoints import USUAL_LIMIT, limits_of, stop_of
from mutirao.sql.dialects.base import Dialect
from mutirao.sql.schema.tables import counter, delivery, live, parked


def sort(conn: Connection, dialect: Dialect, kind: str, key: str) -> None:
    """Put held deliveries for an endpoint, or by the breaker of a host, into their order.

    The caller keeps claims out, and releases them in this transaction.
    """
    counters = conn.scalars(select(counter.c.id).where(_holding(kind, key))).all()
    mine = [dialect.among(parked.c.counter, list(counters)), parked.c.late.is_(False)]
    jobs = conn.scalars(select(parked.c.job).where(*mine)).all() if counters else []
    if len(jobs) < 2:
        return
    conn.execute(dialect.hold_live(live.c.id, ids=jobs).with_for_update()).all()
    moved = _moved(mine).subquery()
    to = update(parked).values(run_at=moved.c.run_at)
    conn.execute(to.where(parked.c.job == moved.c.job))


def _holding(kind: str, key: str) -> Any:
    """Return the counters that hold deliveries to an endpoint, or by the breaker of a host."""
    if kind != "endpoint":
        return counter.c.name == stop_of(kind, key, "breaker").name
    usual = and_(counter.c.name == USUAL_LIMIT.name, counter.c.key == key)
    return or_(counter.c.name.in_(limits_of(key)), usual)


def _moved(mine: Sequence[Any]) -> Select[Any]:
    """Return the jobs that are not in their places, each with the time of its place.

    Of one endpoint and priority the times stay the same: they are dealt out again.
    """
    there, job = _ranked(mine).subquery(), _ranked(mine).subquery()
    same = [there.c[name] == job.c[name] for name in ("priority", "fairness")]
    return select(job.c.job, there.c.run_at).where(
        *same, there.c.place == job.c.due, there.c.run_at != job.c.run_at
    )


def _ranked(mine: Sequence[Any]) -> Select[Any]:
    """Return held deliveries with their places by time, and by publication, which they get."""
    of: dict[str, Any] = {"partition_by": (live.c.fairness, parked.c.priority)}
    by_time, by_publication = (
        func.row_number().over(order_by=(first, parked.c.job), **of)
        for first in (parked.c.run_at, delivery.c.publication)
    )
    return (
        select(parked.c.job, parked.c.run_at, parked.c.priority, live.c.fairness)
        .add_columns(by_time.label("place"), by_publication.label("due"))
        .join_from(parked, live, live.c.id == parked.c.job)
        .join(delivery, delivery.c.job == parked.c.job)
        .where(*mine)
    )
