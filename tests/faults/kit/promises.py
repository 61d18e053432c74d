"""What the tables must never show, whatever the machine: asked in one snapshot.

Each function yields what is wrong: what it is about, so that it is told once, and a sentence.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from sqlalchemy import Connection, exists, func, select

from mutirao.model.jobs.job import FINAL_OUTCOMES
from mutirao.sql.schema.tables import attempt, job, live

Wrong = Iterator[tuple[Hashable, str]]

_FINAL = attempt.c.outcome.in_([str(kind) for kind in FINAL_OUTCOMES])


def lost(connection: Connection) -> Wrong:
    """Jobs that nobody will run and that have no outcome."""
    neither = select(job.c.id).where(
        ~exists().where(live.c.id == job.c.id),
        ~exists().where(attempt.c.job == job.c.id, _FINAL),
    )
    for id in connection.scalars(neither):
        yield ("lost", id), f"job {id} is lost: it is not live, and has no final attempt"


def finished_twice(connection: Connection) -> Wrong:
    """Jobs with several ends, and finished ones that are live."""
    several = select(attempt.c.job).where(_FINAL).group_by(attempt.c.job)
    for id in connection.scalars(several.having(func.count() > 1)):
        yield ("ended", id), f"job {id} has several final attempts"
    both = select(live.c.id).join(attempt, attempt.c.job == live.c.id).where(_FINAL)
    for id in connection.scalars(both):
        yield ("both", id), f"job {id} is live, and has a final attempt"
