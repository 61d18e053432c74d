"""Unique keys in the tables: what settling, cancelling and pruning owe them. The same everywhere.

Synchronous functions of a SQLAlchemy `Connection` in a transaction. How a key is taken is in
`dialects/`; what jobs in series owe each other is in `series`.
"""

from collections.abc import Sequence

from sqlalchemy import Connection, delete, exists, literal, select, union_all, update

from mutirao.sql import series
from mutirao.sql.dialects.admin import admin_of
from mutirao.sql.dialects.base import Dialect
from mutirao.sql.tables import job, key, live, turn
from mutirao.unique import PARKED


def let_go(conn: Connection, dialect: Dialect, ended: Sequence[int]) -> None:
    """Give the jobs that waited for the end of these their own time."""
    among = admin_of(conn.dialect).among
    rows = conn.execute(
        union_all(
            select(key.c.job, key.c.after, literal(False).label("in_series")).where(
                among(key.c.after, ended)
            ),
            select(turn.c.job, turn.c.after, literal(True)).where(among(turn.c.after, ended)),
        )
    ).all()
    waiting = [row.job for row in rows if not row.in_series]
    if behind := [(row.job, row.after) for row in rows if row.in_series]:
        waiting += series.move_up(conn, behind)
    if not waiting:
        return
    own = select(job.c.run_at).where(job.c.id == live.c.id).scalar_subquery()
    conn.execute(
        update(live)
        .where(among(live.c.id, waiting), live.c.run_at == PARKED, live.c.worker.is_(None))
        .values(run_at=own)
    )
    dialect.wake(conn)


def behind(conn: Connection, jobs: Sequence[int]) -> set[int]:
    """Return which of these live jobs wait for the end of another one."""
    among = admin_of(conn.dialect).among
    waits = select(key.c.job).join(live, live.c.id == key.c.after).where(among(key.c.job, jobs))
    return set(conn.scalars(union_all(waits, select(turn.c.job).where(among(turn.c.job, jobs)))))


def forget(conn: Connection, pruned: Sequence[int]) -> None:
    """Remove the keys that these jobs had last; not those that somebody is taking now."""
    held = (
        select(key.c.job)
        .where(admin_of(conn.dialect).among(key.c.job, pruned))
        .where(~exists().where(live.c.id == key.c.after))
        .with_for_update(skip_locked=True)
    )
    conn.execute(delete(key).where(key.c.job.in_(held)))
