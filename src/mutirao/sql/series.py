"""Series in the tables: who comes next when a job of a key has ended. The same everywhere.

Synchronous functions of a SQLAlchemy `Connection` in a transaction. How a job joins its series is
in `dialects/`.
"""

from collections.abc import Sequence

from sqlalchemy import Connection, delete, exists, select, update

from mutirao.sql.dialects.admin import admin_of
from mutirao.sql.tables import live, series, turn


def move_up(conn: Connection, waiting: Sequence[tuple[int, int]]) -> list[int]:
    """Let jobs wait for the one before the one that has ended; return those that need not wait.

    `waiting` are (job, the ended one that it waited for). One that ended while it waited itself,
    because somebody cancelled it, leaves its place to those behind it.
    """
    among = admin_of(conn.dialect).among
    ended = [after for _, after in waiting]
    rows = conn.execute(select(turn.c.job, turn.c.after).where(among(turn.c.job, ended)))
    before = {row.job: row.after for row in rows}
    kept = select(live.c.id).where(among(live.c.id, [*before.values()])).with_for_update()
    still = set(conn.scalars(kept)) if before else set[int]()
    places = {job: _ahead(after, before) for job, after in waiting}
    free = [job for job, ahead in places.items() if ahead not in still]
    for job, ahead in places.items():
        if ahead in still:
            conn.execute(update(turn).where(turn.c.job == job).values(after=ahead))
    if free:
        conn.execute(delete(turn).where(among(turn.c.job, free)))
    return free


def forget(conn: Connection, pruned: Sequence[int]) -> None:
    """Remove what is known of keys whose last job is pruned, unless one before it is live."""
    among = admin_of(conn.dialect).among
    done = (
        select(series.c.last)
        .where(among(series.c.last, pruned))
        .where(~exists().where(turn.c.job == series.c.last))
        .with_for_update(skip_locked=True)
    )
    conn.execute(delete(series).where(series.c.last.in_(done)))


def _ahead(after: int, before: dict[int, int]) -> int:
    while after in before:
        after = before[after]
    return after
