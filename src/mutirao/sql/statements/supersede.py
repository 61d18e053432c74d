"""Supersede in the tables: the next job of a key when one has ended, and jobs that SQL enqueued.

The same on every database.

Synchronous functions of a SQLAlchemy `Connection` in a transaction. How a job is enqueued under a
supersede rule is in `rules/supersede`, and for PostgreSQL in its dialect's `enqueue` and
`supersede`.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from sqlalchemy import Connection, bindparam, delete, exists, select, update

from mutirao.model.keys.uniqueness import KeyName, Unique
from mutirao.sql.drivers.kinds import through
from mutirao.sql.registry import dialect_of
from mutirao.sql.schema import tables
from mutirao.sql.schema.tables import live, supersede_last, supersede_task, supersede_wait


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
    kept = dialect_of(conn.dialect).hold_live(live.c.id, ids=sorted(before.values()))
    still = set(conn.scalars(kept.with_for_update())) if before else set[int]()
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


def declare(conn: Connection, tasks: Mapping[str, Unique]) -> None:
    """Record which of these tasks have a rule, and in which scope."""
    new = {task: usual.scope for task, usual in tasks.items() if usual.supersede is not None}
    known = {row.task: row.scope for row in conn.execute(select(supersede_task))}
    as_it_is = {task for task in new if task in known and known[task] == new[task]}
    if outdated := [task for task in known if task in tasks and task not in as_it_is]:
        conn.execute(delete(supersede_task).where(supersede_task.c.task.in_(outdated)))
    if missing := sorted(new.keys() - as_it_is):
        rows = [{"task": task, "scope": new[task]} for task in missing]
        insert = dialect_of(conn.dialect).insert_unless_exists(supersede_task)
        conn.execute(insert.values(rows))


def judge(conn: Connection, name: KeyName, task: str, usual: Unique, now: datetime | None) -> None:
    """Apply the rule of a task to the jobs of a key that SQL enqueued."""
    if usual.supersede is not None:
        through(conn, dialect_of(conn.dialect).rules.judge(name, task, usual.supersede, now))


# Workers ask every few seconds: building it took longer than the database did.
_UNJUDGED = (
    select(
        tables.job.c.task,
        *(tables.unjudged.c[part] for part in ("scope", "task", "queue", "key")),
    )
    .join(tables.job, tables.job.c.id == tables.unjudged.c.job)
    .where(tables.job.c.task.in_(bindparam("tasks", expanding=True)))
    .order_by(tables.unjudged.c.job)
    .limit(bindparam("most"))
)


def unjudged(conn: Connection, tasks: Collection[str], limit: int) -> list[tuple[str, KeyName]]:
    """Return the tasks and keys of some jobs that SQL enqueued, the oldest first."""
    rows = conn.execute(_UNJUDGED, {"tasks": list(tasks), "most": limit})
    return [*dict.fromkeys((task, (scope, of, queue, key)) for task, scope, of, queue, key in rows)]


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
