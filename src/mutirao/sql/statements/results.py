"""Results, awaited ends, and progress in the tables; the same on every database.

Synchronous functions of a SQLAlchemy `Connection`; their contracts are in `mutirao.ports`.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, and_, delete, insert, literal, select, update

from mutirao.model.jobs.job import FINAL_OUTCOMES, JobState
from mutirao.model.jobs.outcome import Settlement
from mutirao.model.jobs.records import Ending, Progress
from mutirao.sql.dialects.base import Dialect
from mutirao.sql.registry import dialect_of
from mutirao.sql.schema.tables import attempt, job, live, progress, result, waiter

_REPORTED = ("run", "done", "total", "note")
_FINAL = sorted(str(kind) for kind in FINAL_OUTCOMES)


def keep(
    conn: Connection, dialect: Dialect, settled: Sequence[Settlement], now: datetime | None
) -> None:
    """Write the results that are kept."""
    by_length: dict[float | None, list[dict[str, Any]]] = {}
    for each in settled:
        if each.outcome.result is not None:
            text, seconds = each.outcome.result
            by_length.setdefault(seconds, []).append({"job": each.id, "value": text})
    for seconds, rows in by_length.items():
        until = None if seconds is None else dialect.moment(now, seconds)
        conn.execute(insert(result).values(expires_at=until), rows)


def expire(conn: Connection, now: Any) -> None:
    """Delete the results that have expired. A single statement."""
    conn.execute(delete(result).where(result.c.expires_at < now))


def forget(conn: Connection, pruned: Sequence[int]) -> None:
    """Delete the results, progress and waiters of pruned jobs."""
    for table in (result, progress, waiter):
        dialect_of(conn.dialect).delete_rows(conn, table.c.job, pruned)


def endings(conn: Connection, jobs: Sequence[int]) -> list[Ending]:
    """Return how the jobs stand. A single statement."""
    final = and_(attempt.c.job == job.c.id, attempt.c.outcome.in_(_FINAL))
    rows = conn.execute(
        select(
            job.c.id,
            job.c.task,
            attempt.c.outcome,
            result.c.value,
            attempt.c.error_type,
            attempt.c.error,
        )
        .outerjoin_from(job, attempt, final)
        .outerjoin(result, result.c.job == job.c.id)
        .where(dialect_of(conn.dialect).among(job.c.id, jobs))
    )
    return [
        Ending(id, task, None if state is None else JobState(state), *rest)
        for id, task, state, *rest in rows
    ]


def await_ends(conn: Connection, dialect: Dialect, jobs: Sequence[int]) -> None:
    """Request a notification when one of these jobs ends, if that must be requested."""
    # In one order: a transaction that inserts a row which another has just inserted waits for that
    # one.
    which = dialect_of(conn.dialect).among(live.c.id, jobs)
    unfinished = select(live.c.id).where(which).order_by(live.c.id)
    conn.execute(dialect.insert_unless_exists(waiter).from_select(["job"], unfinished))


def report(
    conn: Connection, dialect: Dialect, reports: Sequence[Progress], now: datetime | None
) -> None:
    """Write the progress of attempts; progress that a later run reported is kept."""
    for each in sorted(reports):
        values: dict[str, Any] = {
            "run": each.run,
            "done": each.done,
            "total": each.of,
            "note": each.note,
            "told_at": dialect.moment(now),
        }
        mine = and_(progress.c.job == each.job, progress.c.run <= each.run)
        if conn.execute(update(progress).where(mine).values(values)).rowcount:
            continue
        known = select(job.c.id).where(job.c.id == each.job)
        bound = {name: literal(values[name], progress.c[name].type) for name in _REPORTED}
        row = known.add_columns(*bound.values(), values["told_at"])
        conn.execute(dialect.insert_unless_exists(progress).from_select(["job", *values], row))
