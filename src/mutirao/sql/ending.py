"""How waiting jobs end without having run: the same statements everywhere."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Connection, delete, insert, literal, null, select

from mutirao.job import OutcomeKind
from mutirao.sql.dialects.admin import admin_of
from mutirao.sql.dialects.base import Dialect
from mutirao.sql.tables import attempt, live, next_run

_TOLD = (
    "job", "run", "attempt", "worker", "outcome", "started_at", "finished_at", "error_type",
    "error",
)  # fmt: skip


def cancel_waiting(
    conn: Connection, dialect: Dialect, jobs: Sequence[int], now: datetime | None
) -> None:
    """Finish jobs as cancelled that wait, and whose live rows are held."""
    which, moment = admin_of(conn.dialect).among(live.c.id, jobs), dialect.moment(now)
    told = select(
        live.c.id,
        next_run(),  # the current one may be in history already
        live.c.attempt,
        null(),
        literal(str(OutcomeKind.CANCELLED)),
        moment,
        moment,
        null(),
        null(),
    ).where(which)
    conn.execute(insert(attempt).from_select(list(_TOLD), told))
    conn.execute(delete(live).where(which))
