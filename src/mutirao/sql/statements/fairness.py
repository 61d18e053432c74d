"""The tasks whose jobs are claimed fairly: rows that workers write and enqueueing reads."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from sqlalchemy import Connection, and_, delete, false, not_, or_, select

from mutirao.model.job import NewJob
from mutirao.sql.dialects.base import Dialect
from mutirao.sql.schema.tables import fairness, fairness_served, worker


def declare(conn: Connection, dialect: Dialect, tasks: Mapping[str, str | None]) -> None:
    """Record by which argument the jobs of tasks are claimed fairly; None: by none.

    A single statement if none of them is fair. Also deletes the fairness state of workers that no
    longer exist.
    """
    rules = [{"task": task, "by": by} for task, by in sorted(tasks.items()) if by is not None]
    as_it_is = [
        and_(fairness.c.task == rule["task"], fairness.c.by == rule["by"]) for rule in rules
    ]
    others = not_(or_(false(), *as_it_is))
    conn.execute(delete(fairness).where(fairness.c.task.in_(list(tasks)), others))
    if rules:
        conn.execute(dialect.insert_unless_exists(fairness).values(rules))
        gone = fairness_served.c.worker.not_in(select(worker.c.id))
        conn.execute(delete(fairness_served).where(fairness_served.c.worker > 0, gone))


def known(conn: Connection, jobs: Iterable[NewJob]) -> list[NewJob]:
    """Return jobs that were enqueued without the code, with the `fair_by` recorded for them."""
    rules = {row.task: row.by for row in conn.execute(select(fairness))}
    if not rules:
        return list(jobs)
    return [replace(job, fair_by=job.fair_by or rules.get(job.task)) for job in jobs]
