"""Changes waiting jobs: queue, time, priority and others; the same on every database.

A synchronous function of a SQLAlchemy `Connection` in a transaction; its contract is that of
`mutirao.ports.Store.change`. The holder of a live row's lock may also write the job's row of
`mutirao_job`, which no other transaction changes, and its place behind a limit.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, case, func, literal, select, update

from mutirao.model.jobs.change import Change
from mutirao.model.jobs.lanes import FAIR_LANE_PREFIX
from mutirao.model.jobs.records import JobFilter
from mutirao.model.keys.uniqueness import PARKED
from mutirao.model.limits.fairness import fair_lane
from mutirao.sql.dialects.base import Dialect
from mutirao.sql.drivers.kinds import through
from mutirao.sql.schema.tables import job, live, parked
from mutirao.sql.statements import carried, graphs, limits
from mutirao.sql.statements.job_admin import locked, matching_live


def change(
    conn: Connection, dialect: Dialect, which: JobFilter, new: Change, now: datetime | None
) -> list[int]:
    """Give waiting jobs new values; return their ids."""
    ids = matching_live(conn, which)
    graphs.hold(conn, ids)
    rows = [row for row in locked(conn, ids) if row.worker is None]
    waiting = [row.id for row in rows]
    if not waiting:
        return []
    moment = conn.scalars(select(dialect.moment(now))).one()
    due = new.run_at if new.delay is None else moment + timedelta(seconds=new.delay)
    limited = limits.blocked(conn, waiting)
    # Jobs that wait for others get their time from `mutirao_job` when they are released.
    timed = [row.id for row in rows if row.id not in limited and row.run_at != PARKED]
    _change_asked(conn, dialect, waiting, new, due)
    _change_lanes(conn, dialect, waiting, new)
    if due is not None and timed:
        conn.execute(
            dialect.update_live().where(dialect.among(live.c.id, timed)).values(run_at=due)
        )
    if limited:
        if new.queue is not None or (due is not None and due > moment):
            _judge_anew(conn, dialect, sorted(limited), due)
        _change_places(conn, dialect, sorted(limited), new, due)
        through(conn, dialect.rules.mend_limits(now))
    through(conn, dialect.rules.wake_all())
    return waiting


def _change_asked(
    conn: Connection, dialect: Dialect, jobs: Sequence[int], new: Change, due: datetime | None
) -> None:
    values = _given(
        priority=new.priority, queue=new.queue, max_attempts=new.max_attempts, run_at=due
    )
    which = dialect.among(job.c.id, jobs)
    conn.execute(dialect.update_by_ids(job).where(which).values(**values))


def _change_lanes(conn: Connection, dialect: Dialect, jobs: Sequence[int], new: Change) -> None:
    values = _given(priority=new.priority, queue=carried.own_lane())
    if new.queue is not None:
        values["queue"] = case(
            (func.substr(values["queue"], 1, 1) == FAIR_LANE_PREFIX, fair_lane(new.queue)),
            else_=literal(new.queue),
        )
    conn.execute(dialect.update_live().where(dialect.among(live.c.id, jobs)).values(**values))


def _judge_anew(
    conn: Connection, dialect: Dialect, jobs: Sequence[int], due: datetime | None
) -> None:
    """Bring jobs back to their lanes that were blocked by limits: others may concern them now."""
    place = select(parked.c.run_at).where(parked.c.job == live.c.id).scalar_subquery()
    back = dialect.update_live().where(dialect.among(live.c.id, jobs))
    conn.execute(back.values(run_at=place if due is None else due))
    dialect.delete_rows(conn, parked.c.job, jobs)


def _change_places(
    conn: Connection, dialect: Dialect, jobs: Sequence[int], new: Change, due: datetime | None
) -> None:
    """Move jobs among those that wait for the same limit."""
    if values := _given(priority=new.priority, run_at=due):
        conn.execute(update(parked).where(dialect.among(parked.c.job, jobs)).values(**values))


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
