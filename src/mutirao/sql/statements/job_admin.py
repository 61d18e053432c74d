"""The administration of jobs: cancel, run now, redrive, expire, prune; the same on every database.

Synchronous functions of a SQLAlchemy `Connection` that is in a transaction; their contracts are
those of the methods of the same name in `mutirao.ports.Store`. Live rows are locked in the order of
their ids, as every other statement does, so that there is no deadlock.
"""

import logging
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    Text,
    case,
    cast,
    exists,
    or_,
    select,
    true,
    update,
)

from mutirao.errors import InvalidJob
from mutirao.model.jobs.expiry import EXPIRED, REASON
from mutirao.model.jobs.job import FINAL_STATES, JobState, NewJob, OutcomeKind
from mutirao.model.jobs.records import JobFilter
from mutirao.model.keys.uniqueness import PARKED
from mutirao.model.row_json import UnreadableRow, check_storable, read_list, read_object
from mutirao.sql.dialects.base import Dialect
from mutirao.sql.drivers.kinds import through
from mutirao.sql.enqueue.intake import Enqueue
from mutirao.sql.registry import dialect_of
from mutirao.sql.schema import tables, views
from mutirao.sql.schema.tables import attempt, live
from mutirao.sql.statements import (
    fairness,
    graphs,
    limits,
    ordering,
    results,
    supersede,
    topics,
    uniqueness,
)
from mutirao.sql.statements.cancelling import cancel_waiting
from mutirao.sql.statements.finding.matching import is_one_of, matching

log = logging.getLogger(__name__)
Moment = ColumnElement[datetime]

# JSON is copied as text: a number may have more digits than Python's numbers.
_AS_TEXT = tables.json_columns(tables.job)
_ASKED = [
    cast(column, Text).label(column.name) if column.name in _AS_TEXT else column
    for column in tables.job.c
    if column.name not in ("run_at", "enqueued_at", "redrive_of", "version")
]


def cancel(
    conn: Connection, dialect: Dialect, enqueue: Enqueue, which: JobFilter, now: datetime | None
) -> list[int]:
    """Finish waiting jobs as cancelled, and flag running ones; return the ids of both.

    `enqueue` writes the compensating jobs of graphs.
    """
    held = _hold(conn, dialect, matching_live(conn, which))
    among = dialect_of(conn.dialect).among
    waiting = [row.id for row in held if row.worker is None]
    running = [row.id for row in held if row.worker is not None]
    _end_waiting(conn, dialect, enqueue, waiting, now)
    if running:
        conn.execute(
            dialect_of(conn.dialect)
            .update_live()
            .where(among(live.c.id, running))
            .values(cancel=true())
        )
    return [row.id for row in held]


def expired(
    conn: Connection, moment: ColumnElement[datetime], limit: int
) -> tuple[list[int], list[int]]:
    """Return jobs whose moment has passed, the earliest first: that wait, and that have ended."""
    noted = tables.expiry.c
    found = conn.execute(
        select(noted.job, live.c.id)
        .outerjoin(live, live.c.id == noted.job)
        .where(noted.look_at < moment, or_(live.c.id.is_(None), live.c.worker.is_(None)))
        .order_by(noted.look_at)
        .limit(limit)
    ).all()
    waiting = [row.job for row in found if row.id is not None]
    return waiting, [row.job for row in found if row.id is None]


def end_expired(
    conn: Connection, dialect: Dialect, enqueue: Enqueue, which: JobFilter, now: datetime | None
) -> list[int]:
    """Finish those of these jobs, named by ids, that wait as cancelled; return them."""
    held = _hold(conn, dialect, which.ids or ())
    waiting = [row.id for row in held if row.worker is None]
    _end_waiting(conn, dialect, enqueue, waiting, now, EXPIRED, REASON)
    return waiting


def has_seen_expired(conn: Connection, jobs: Sequence[int]) -> None:
    """Look no more whether these jobs have expired."""
    noted = tables.expiry
    among = dialect_of(conn.dialect).among(noted.c.job, jobs)
    conn.execute(update(noted).where(among).values(look_at=None))


def _hold(conn: Connection, dialect: Dialect, ids: Sequence[int]) -> Sequence[Any]:
    """Lock live jobs with all that their end touches; return their rows."""
    if ids and graphs.hold(conn, ids):
        graphs.lock_compensated(conn, dialect, ids, ids)
    through(conn, dialect.rules.hold(ids))
    return locked(conn, ids)


def _end_waiting(
    conn: Connection,
    dialect: Dialect,
    enqueue: Enqueue,
    waiting: Sequence[int],
    now: datetime | None,
    error_type: str | None = None,
    error: str | None = None,
) -> None:
    """Finish waiting jobs, which are held, as cancelled, with all that follows for others."""
    if not waiting:
        return
    cancel_waiting(conn, dialect, waiting, now, error_type, error)
    uniqueness.let_go(conn, dialect, waiting)
    through(conn, dialect.rules.notify_ended(waiting))
    endings = dict.fromkeys(waiting, OutcomeKind.CANCELLED)
    graphs.ended(conn, dialect, enqueue, endings, now)
    limits.cancelled(conn, dialect, waiting, now)


def run_now(conn: Connection, which: JobFilter, now: Moment) -> list[int]:
    """Make waiting jobs due now; return their ids. A job that is due already keeps its position.

    A job that waits for other jobs, or for a limit, continues to wait.
    """
    ids = matching_live(conn, which)
    graphs.hold(conn, ids)
    found = [row.id for row in locked(conn, ids) if row.worker is None and row.run_at != PARKED]
    behind = uniqueness.behind(conn, found) | limits.blocked(conn, found) if found else set()
    waiting = [id for id in found if id not in behind]
    if waiting:
        conn.execute(
            dialect_of(conn.dialect)
            .update_live()
            .where(dialect_of(conn.dialect).among(live.c.id, waiting))
            .values(run_at=case((live.c.run_at > now, now), else_=live.c.run_at))
        )
    return waiting


def redrive(conn: Connection, which: JobFilter, enqueue: Enqueue) -> list[int]:
    """Enqueue finished jobs again, oldest first; return the new ids.

    `enqueue` writes them through the connection, and wakes workers.
    """
    # A concurrent redrive must see the new jobs, and skip those that they repeat.
    dialect_of(conn.dialect).admin.one_at_a_time(conn, "redrive")
    ended = _finished(conn, which)
    graphs.hold(conn, ended)
    rows = conn.execute(
        select(*_ASKED)
        .where(dialect_of(conn.dialect).among(tables.job.c.id, ended))
        .order_by(tables.job.c.id)
    )
    again = fairness.known(conn, filter(None, map(_again, rows)))
    if not again:
        return []
    awaited = graphs.awaited_steps(conn, ended)
    placed = {row.job for row in awaited}
    alone = [new for new in again if new.redrive_of not in placed]
    own = {new.redrive_of: new for new in graphs.own_args(conn, alone)}
    ids = enqueue([own.get(new.redrive_of, new) for new in again], conn)
    repeated = {new.redrive_of or 0: id for new, id in zip(again, ids, strict=True)}
    graphs.redriven(conn, awaited, repeated)
    topics.redriven(conn, again, ids)
    return ids


def prune(conn: Connection, outcome: OutcomeKind, before: Moment, limit: int) -> int:
    """Delete the oldest jobs that ended with `outcome` before a moment; return how many."""
    if not outcome.final:
        return 0  # no job ends with this outcome
    dialect_of(conn.dialect).before_looking_for_old(conn)
    found = conn.scalars(
        select(attempt.c.job)
        .where(attempt.c.outcome == str(outcome), attempt.c.finished_at < before)
        .where(~graphs.is_unfinished(attempt.c.job), ~topics.has_deliveries(attempt.c.job))
        .where(~ordering.is_waited_for(attempt.c.job))
        .order_by(attempt.c.finished_at)
        .limit(limit)
        .with_for_update(skip_locked=True, of=attempt)
    ).all()
    still_wanted = graphs.unprunable(conn, found) if found else set[int]()
    oldest = [id for id in found if id not in still_wanted]
    if oldest:
        forget(conn, oldest)
    return len(oldest)


def forget(conn: Connection, jobs: Sequence[int]) -> None:
    """Delete jobs that are not live, with all that is known of them.

    They are locked, after `Dialect.before_looking_for_old`.
    """
    dialect = dialect_of(conn.dialect)
    dialect.before_pruning(conn, jobs)
    dialect.delete_rows(conn, attempt.c.job, jobs)
    dialect.delete_rows(conn, tables.job.c.id, jobs)
    uniqueness.forget(conn, jobs)
    supersede.forget(conn, jobs)
    graphs.forget(conn, jobs)
    results.forget(conn, jobs)
    topics.forget(conn, jobs)
    dialect.delete_rows(conn, tables.webhook_attempt.c.job, jobs)
    dialect.delete_rows(conn, tables.expiry.c.job, jobs)


def matching_live(conn: Connection, which: JobFilter) -> Sequence[int]:
    """Return the ids of the oldest live jobs that match; just inserted ones are among them."""
    dialect_of(conn.dialect).place_inserted(conn)
    found = select(views.jobs.c.id).join(live, live.c.id == views.jobs.c.id)
    return _oldest(conn, found, which)


def locked(conn: Connection, ids: Sequence[int]) -> Sequence[Any]:
    """Lock the rows of live jobs, and return them as they are now."""
    dialect = dialect_of(conn.dialect)
    alone = len(ids) > 1 and not dialect.rules.waits_while_holding
    held = dialect.hold_live(live.c.id, live.c.worker, live.c.run_at, ids=ids)
    return conn.execute(held.with_for_update(nowait=alone)).all()


def _finished(conn: Connection, which: JobFilter) -> Sequence[int]:
    """Return the ids of the oldest finished jobs that match and, without ids, were not redriven.

    Dead ones, unless the filter says which: by ids or by state.
    """
    found = select(views.jobs.c.id)
    if which.named:
        found = found.where(views.jobs.c.state.in_(sorted(FINAL_STATES)))
    else:
        again = tables.job.alias("again")
        found = found.where(~exists().where(again.c.redrive_of == views.jobs.c.id))
        wanted = which.any_state
        ended = [str(JobState.DEAD)] if wanted is None else sorted(wanted & FINAL_STATES)
        found = found.where(is_one_of(views.jobs.c.state, ended))
    return _oldest(conn, found, which)


def _oldest(conn: Connection, found: Select[int], which: JobFilter) -> Sequence[int]:
    wanted = found.where(matching(conn, which)).order_by(views.jobs.c.id).limit(which.limit)
    return conn.scalars(wanted).all()


def _again(row: Any) -> NewJob | None:
    """Return the job that repeats one; None, and it is logged, if its row cannot be read."""
    values = row._asdict()
    id = values.pop("id")
    try:
        values["tags"] = tuple(read_list(values["tags"] or "[]", "its tags"))
        values["metadata"] = read_object(values["metadata"] or "{}", "its metadata")
        check_storable((values["tags"], values["metadata"]), "what it says beside its arguments")
        return NewJob(**values, redrive_of=id)
    except (UnreadableRow, InvalidJob) as unfit:
        log.error("job %s cannot be redriven: %s; the others are", id, unfit)
        return None
