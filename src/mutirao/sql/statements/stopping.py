"""Schedules that are paused in the commit that ends a job, since its handler said so.

Their rows are locked before those of the jobs, as a tick does.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime

from sqlalchemy import Connection, select, update

from mutirao.model.jobs.outcome import Settlement
from mutirao.sql.dialects.base import Dialect
from mutirao.sql.schema.tables import job, schedule


def hold(
    conn: Connection, dialect: Dialect, settlements: Sequence[Settlement]
) -> Mapping[int, str]:
    """Lock the schedules that these outcomes stop; return their names by job."""
    stopping = [s.id for s in settlements if s.outcome.stops]
    if not stopping:
        return {}
    made = select(job.c.id, job.c.metadata).where(dialect.among(job.c.id, stopping))
    names = {row.id: row.metadata.get("schedule") for row in conn.execute(made) if row.metadata}
    found = {id: name for id, name in names.items() if isinstance(name, str)}
    which = schedule.c.name.in_(sorted(set(found.values())))
    conn.execute(select(schedule.c.name).where(which).order_by(schedule.c.name).with_for_update())
    return found


def pause(
    conn: Connection,
    dialect: Dialect,
    names: Mapping[int, str],
    settlements: Sequence[Settlement],
    now: datetime | None,
) -> None:
    """Pause the schedules of these jobs, with the reason that each outcome gives."""
    for each in settlements:
        if each.outcome.stops and each.id in names:
            conn.execute(
                update(schedule)
                .where(schedule.c.name == names[each.id], ~schedule.c.paused)
                .values(
                    paused=True,
                    reason=f"job {each.id}: {each.outcome.error}",
                    changed_at=dialect.moment(now),
                )
            )
