"""Cancels waiting jobs, by the same statements on every database."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Connection, Text, insert, literal, null, select

from mutirao.model.jobs.job import OutcomeKind
from mutirao.sql.dialects.base import Dialect
from mutirao.sql.registry import dialect_of
from mutirao.sql.schema.tables import attempt, live, next_run

_COLUMNS = (
    "job", "run", "attempt", "worker", "outcome", "started_at", "finished_at", "error_type",
    "error", "came_late",
)  # fmt: skip


def cancel_waiting(
    conn: Connection,
    dialect: Dialect,
    jobs: Sequence[int],
    now: datetime | None,
    error_type: str | None = None,
    error: str | None = None,
) -> None:
    """Finish waiting jobs as cancelled; their live rows must be locked."""
    end_waiting(conn, dialect, jobs, now, OutcomeKind.CANCELLED, error_type, error)


def end_waiting(
    conn: Connection,
    dialect: Dialect,
    jobs: Sequence[int],
    now: datetime | None,
    outcome: OutcomeKind,
    error_type: str | None = None,
    error: str | None = None,
) -> None:
    """Finish waiting jobs with an outcome; their live rows must be locked."""
    which, moment = dialect_of(conn.dialect).among(live.c.id, jobs), dialect.moment(now)
    rows = select(
        live.c.id,
        next_run(),  # the current run may be in history already
        live.c.attempt,
        null(),
        literal(str(outcome)),
        moment,
        moment,
        literal(error_type, Text),
        literal(error, Text),
        dialect.came_late(moment),
    ).where(which)
    conn.execute(insert(attempt).from_select(list(_COLUMNS), rows))
    dialect.delete_rows(conn, live.c.id, jobs)
