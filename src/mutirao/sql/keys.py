"""Unique keys in the tables: what settling, cancelling and pruning owe them. The same everywhere.

Synchronous functions of a SQLAlchemy `Connection` in a transaction. How a key is taken is in
`dialects/`.
"""

from collections.abc import Sequence

from sqlalchemy import Connection, delete, exists, select, update

from mutirao.sql.dialects.admin import admin_of
from mutirao.sql.dialects.base import Dialect
from mutirao.sql.tables import job, key, live
from mutirao.unique import PARKED


def let_go(conn: Connection, dialect: Dialect, ended: Sequence[int]) -> None:
    """Give the jobs that waited for the end of these their own time."""
    among = admin_of(conn.dialect).among
    waiting = conn.scalars(select(key.c.job).where(among(key.c.after, ended))).all()
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
    waits = (
        select(key.c.job)
        .join(live, live.c.id == key.c.after)
        .where(admin_of(conn.dialect).among(key.c.job, jobs))
    )
    return set(conn.scalars(waits))


def forget(conn: Connection, pruned: Sequence[int]) -> None:
    """Remove the keys that these jobs had last; not those that somebody is taking now."""
    held = (
        select(key.c.job)
        .where(admin_of(conn.dialect).among(key.c.job, pruned))
        .where(~exists().where(live.c.id == key.c.after))
        .with_for_update(skip_locked=True)
    )
    conn.execute(delete(key).where(key.c.job.in_(held)))
