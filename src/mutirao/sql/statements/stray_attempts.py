"""Removes attempts that no run of a job made: they were written by hand.

They have the key of a run that is about to be written: its batch would fail for ever.
"""

import logging
from collections.abc import Collection

from sqlalchemy import Connection, and_, case, delete, select

from mutirao.sql.dialects.base import Dialect
from mutirao.sql.schema.tables import attempt, live, next_run

log = logging.getLogger(__name__)


def disown(conn: Connection, dialect: Dialect, jobs: Collection[int] | None) -> set[int]:
    """Delete attempts of runs that have not ended; return whose they were.

    Of these live jobs, or of all. In a transaction; live rows are locked first.
    """
    found = sorted({job for job, _ in _unmade(conn, dialect, jobs)})
    if not found:
        return set()
    conn.execute(dialect.hold_live(live.c.id, ids=found).with_for_update()).all()
    still = _unmade(conn, dialect, found)
    for job, run in still:
        its = and_(attempt.c.job == job, attempt.c.run == run)
        conn.execute(delete(attempt).where(its))
        log.error("the history of job %s had run %s, which has not ended; it was deleted", job, run)
    return {job for job, _ in still}


def _unmade(
    conn: Connection, dialect: Dialect, jobs: Collection[int] | None
) -> list[tuple[int, int]]:
    coming = case((live.c.worker.is_(None), next_run()), else_=live.c.run)
    same = and_(attempt.c.job == live.c.id, attempt.c.run == coming)
    rows = select(attempt.c.job, attempt.c.run).join(live, same)
    if jobs is not None:
        rows = rows.where(dialect.among(live.c.id, sorted(jobs)))
    return [(row.job, row.run) for row in conn.execute(rows)]
