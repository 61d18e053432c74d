"""Unique keys in the tables: their part in settling, cancelling and pruning.

Synchronous functions of a SQLAlchemy `Connection` in a transaction, the same on every database. How
a key is taken is in `rules/uniqueness`, and for PostgreSQL in its dialect's `enqueue`; jobs with a
supersede rule are in `supersede`.
"""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Connection, exists, literal, null, select, union_all

from mutirao.model.keys.supersede import SUPERSEDED, cancelled_because
from mutirao.model.keys.uniqueness import PARKED
from mutirao.sql.dialects.base import Dialect
from mutirao.sql.drivers.kinds import through
from mutirao.sql.registry import dialect_of
from mutirao.sql.schema.tables import job, key, live, ordered, supersede_wait
from mutirao.sql.statements import ordering, supersede
from mutirao.sql.statements.cancelling import cancel_waiting


def let_go(conn: Connection, dialect: Dialect, ended: Sequence[int]) -> None:
    """Make the jobs that waited for the end of these due at their own `run_at`."""
    among = dialect_of(conn.dialect).among
    rows = conn.execute(
        union_all(
            select(key.c.job, key.c.after, literal(False).label("superseding")).where(
                among(key.c.after, ended)
            ),
            select(supersede_wait.c.job, supersede_wait.c.after, literal(True)).where(
                among(supersede_wait.c.after, ended)
            ),
            select(ordered.c.job, null(), literal(False)).where(among(ordered.c.after, ended)),
        )
    ).all()
    waiting = [row.job for row in rows if not row.superseding]
    if next_in_line := [row.job for row in rows if row.after is None]:
        ordering.let_go(conn, dialect, next_in_line)
    if behind := [(row.job, row.after) for row in rows if row.superseding]:
        waiting += supersede.wait_for_previous(conn, behind)
    if not waiting:
        return
    own = select(job.c.run_at).where(job.c.id == live.c.id).scalar_subquery()
    conn.execute(
        dialect_of(conn.dialect)
        .update_live()
        .where(among(live.c.id, waiting), live.c.run_at == PARKED, live.c.worker.is_(None))
        .values(run_at=own)
    )
    through(conn, dialect.rules.wake())


def overtake(
    conn: Connection, dialect: Dialect, jobs: Sequence[int], now: datetime | None
) -> list[int]:
    """Cancel those of these waiting jobs for which a newer job of their key waits; return them.

    Their attempts did not get done what they were about, and the newer jobs are about it, too: so
    those are due now. The live rows of all of them must be locked. What they held of limits was
    given back when their runs ended.
    """
    older = live.alias("older")
    rows = conn.execute(
        select(key.c.after, key.c.job)
        .join(older, older.c.id == key.c.after)
        .join(live, live.c.id == key.c.job)
        .where(dialect_of(conn.dialect).among(key.c.after, jobs), older.c.worker.is_(None))
        .order_by(key.c.after)
    ).all()
    for row in rows:
        why = cancelled_because("superseded", row.job)
        cancel_waiting(conn, dialect, [row.after], now, SUPERSEDED, why)
    if overtaken := [row.after for row in rows]:
        let_go(conn, dialect, overtaken)
        through(conn, dialect.rules.notify_ended(overtaken))
    return overtaken


def behind(conn: Connection, jobs: Sequence[int]) -> set[int]:
    """Return those of these live jobs that wait for the end of another job."""
    among = dialect_of(conn.dialect).among
    waits = select(key.c.job).join(live, live.c.id == key.c.after).where(among(key.c.job, jobs))
    return set(
        conn.scalars(
            union_all(waits, select(supersede_wait.c.job).where(among(supersede_wait.c.job, jobs)))
        )
    )


def forget(conn: Connection, pruned: Sequence[int]) -> None:
    """Delete the keys that these jobs held last, but not those that are being taken now."""
    held = (
        select(key.c.job)
        .where(dialect_of(conn.dialect).among(key.c.job, pruned))
        .where(~exists().where(live.c.id == key.c.after))
        .with_for_update(skip_locked=True)
    )
    dialect_of(conn.dialect).delete_rows(
        conn, key.c.job, conn.scalars(held).all(), "mutirao_key_job"
    )
