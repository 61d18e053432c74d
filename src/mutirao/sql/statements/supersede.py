"""Supersede in the tables: the next job of a key when one has ended; the same on every database.

Synchronous functions of a SQLAlchemy `Connection` in a transaction. How a job is enqueued under a
supersede rule is in `rules/supersede`, and for PostgreSQL in its dialect's `enqueue`.
"""

from collections.abc import Sequence

from sqlalchemy import Connection, exists, select, update

from mutirao.sql.registry import dialect_of
from mutirao.sql.schema.tables import live, supersede_last, supersede_wait


def wait_for_previous(conn: Connection, waiting: Sequence[tuple[int, int]]) -> list[int]:
    """Make jobs wait for the job before the one that has ended; return those that need not wait.

    `waiting` are pairs (job, the ended job that it waited for). When a job was cancelled while it
    waited itself, the jobs behind it wait for the one before it.
    """
    among = dialect_of(conn.dialect).among
    ended = [after for _, after in waiting]
    rows = conn.execute(
        select(supersede_wait.c.job, supersede_wait.c.after).where(
            among(supersede_wait.c.job, ended)
        )
    )
    before = {row.job: row.after for row in rows}
    kept = select(live.c.id).where(among(live.c.id, [*before.values()])).with_for_update()
    still = set(conn.scalars(kept)) if before else set[int]()
    places = {job: _ahead(after, before) for job, after in waiting}
    free = [job for job, ahead in places.items() if ahead not in still]
    for job, ahead in places.items():
        if ahead in still:
            conn.execute(
                update(supersede_wait).where(supersede_wait.c.job == job).values(after=ahead)
            )
    if free:
        dialect_of(conn.dialect).delete_rows(conn, supersede_wait.c.job, free)
    return free


def forget(conn: Connection, pruned: Sequence[int]) -> None:
    """Delete the rows of keys whose last job is pruned, unless an earlier one is live."""
    among = dialect_of(conn.dialect).among
    done = (
        select(supersede_last.c.last)
        .where(among(supersede_last.c.last, pruned))
        .where(~exists().where(supersede_wait.c.job == supersede_last.c.last))
        .with_for_update(skip_locked=True)
    )
    held = conn.scalars(done).all()
    dialect_of(conn.dialect).delete_rows(
        conn, supersede_last.c.last, held, "mutirao_supersede_last_job"
    )


def _ahead(after: int, before: dict[int, int]) -> int:
    while after in before:
        after = before[after]
    return after
