"""The tasks whose jobs are claimed fairly: rows that workers write and enqueueing reads."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from sqlalchemy import Connection, delete, select

from mutirao.model.jobs.job import NewJob
from mutirao.sql.dialects.base import Dialect
from mutirao.sql.schema.tables import fairness, fairness_served, worker


def declare(conn: Connection, dialect: Dialect, tasks: Mapping[str, str | None]) -> None:
    """Record by which argument the jobs of tasks are claimed fairly; None: by none.

    A single statement if none of them is fair, or was. Also deletes the fairness state of workers
    that no longer exist.
    """
    rules = {task: by for task, by in sorted(tasks.items()) if by is not None}
    # Nothing is written that is as it should be: who enqueues may keep it locked.
    known = {row.task: row.by for row in conn.execute(select(fairness)) if row.task in tasks}
    if outdated := [task for task, by in known.items() if rules.get(task) != by]:
        conn.execute(delete(fairness).where(fairness.c.task.in_(outdated)))
    if missing := [task for task, by in rules.items() if known.get(task) != by]:
        rows = [{"task": task, "by": rules[task]} for task in missing]
        conn.execute(dialect.insert_unless_exists(fairness).values(rows))
    if rules:
        gone = fairness_served.c.worker.not_in(select(worker.c.id))
        conn.execute(delete(fairness_served).where(fairness_served.c.worker > 0, gone))


def known(conn: Connection, jobs: Iterable[NewJob]) -> list[NewJob]:
    """Return jobs that were enqueued without the code, with the `fair_by` recorded for them."""
    rules = {row.task: row.by for row in conn.execute(select(fairness))}
    if not rules:
        return list(jobs)
    return [replace(job, fair_by=job.fair_by or rules.get(job.task)) for job in jobs]
