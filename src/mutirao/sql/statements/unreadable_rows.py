"""Marks a job as dead whose row cannot be read; the same on every database.

Synchronous functions of a SQLAlchemy `Connection`; their contracts are in
`mutirao.ports.unreadable_rows`. They read numbers of `mutirao_live`, and nothing that could
have been written as text.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, and_, func, select

from mutirao.model.jobs.job import Lane, OutcomeKind
from mutirao.model.jobs.lanes import RUNG_LANE_PREFIX
from mutirao.sql.dialects.base import Dialect
from mutirao.sql.drivers.kinds import through
from mutirao.sql.enqueue.intake import Enqueue
from mutirao.sql.schema.tables import live
from mutirao.sql.statements import graphs, limits, uniqueness
from mutirao.sql.statements.cancelling import end_waiting


def due(
    conn: Connection,
    dialect: Dialect,
    lanes: Sequence[Lane] | None,
    limit: int,
    now: datetime | None,
) -> list[int]:
    """Return the ids of due jobs, lane by lane; of all lanes mixed, by id."""
    waiting = select(live.c.id).where(live.c.worker.is_(None), live.c.run_at <= dialect.moment(now))
    waiting = waiting.where(func.substr(live.c.queue, 1, 1) != RUNG_LANE_PREFIX)
    if lanes is None:
        return list(conn.scalars(waiting.order_by(live.c.id).limit(limit)))
    ids = list[int]()
    for lane in lanes:
        if len(ids) >= limit:
            break
        mine = and_(live.c.queue == lane.queue, live.c.priority == lane.priority)
        inside = waiting.where(mine).order_by(live.c.run_at, live.c.id)
        ids += conn.scalars(inside.limit(limit - len(ids)))
    return list(dict.fromkeys(ids))


def waiting(conn: Connection, dialect: Dialect, jobs: Sequence[int]) -> list[tuple[int, int]]:
    """Return (id, run) of those of these jobs that wait. A single statement."""
    found = conn.execute(
        select(live.c.id, live.c.run).where(dialect.among(live.c.id, jobs), live.c.worker.is_(None))
    )
    return sorted((row.id, row.run) for row in found)


@dataclass(frozen=True, slots=True)
class Burial:
    """How a job is buried: its error, and the writer of the jobs that compensate graphs."""

    dialect: Dialect
    enqueue: Enqueue
    error_type: str
    error: str
    now: datetime | None

    def bury(self, conn: Connection, job: int) -> bool:
        """End a waiting job as dead; return whether it waited."""
        if graphs.hold(conn, [job]):
            graphs.lock_compensated(conn, self.dialect, [job], [job])
        through(conn, self.dialect.rules.hold([job]))
        held = self.dialect.hold_live(live.c.id, live.c.worker, ids=[job]).with_for_update()
        if not any(row.worker is None for row in conn.execute(held)):
            return False
        dead = OutcomeKind.DEAD
        end_waiting(conn, self.dialect, [job], self.now, dead, self.error_type, self.error)
        uniqueness.let_go(conn, self.dialect, [job])
        through(conn, self.dialect.rules.notify_ended([job]))
        graphs.ended(conn, self.dialect, self.enqueue, {job: dead}, self.now)
        limits.cancelled(conn, self.dialect, [job], self.now)
        return True
