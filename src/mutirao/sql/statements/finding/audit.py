"""The audit of actions: its entries, and the deletion of finished jobs."""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, and_, delete, func, insert, select, true, update

from mutirao.model.audit.actions import (
    MAX_ERROR,
    ActionKind,
    ActionState,
    AuditRecord,
    Came,
    NewAction,
)
from mutirao.model.jobs.job import FINAL_OUTCOMES, FINAL_STATES, JobState
from mutirao.model.jobs.records import JobFilter
from mutirao.model.row_json import read_list, read_object
from mutirao.sql.dialects.base import Dialect
from mutirao.sql.schema import tables, views
from mutirao.sql.schema.tables import attempt
from mutirao.sql.statements import graphs, job_admin, ordering, topics
from mutirao.sql.statements.finding.matching import matching

_ROW = tables.action.c


def remove(conn: Connection, dialect: Dialect, which: JobFilter) -> list[int]:
    """Delete finished jobs that match; return their ids."""
    view = views.jobs.c
    wanted = select(view.id).where(matching(conn, which))
    ended = wanted.where(view.state.in_(sorted(FINAL_STATES))).order_by(view.id).limit(which.limit)
    found = conn.scalars(ended).all()
    dialect.before_looking_for_old(conn)
    among = dialect.among
    held = conn.scalars(
        select(attempt.c.job)
        .where(among(attempt.c.job, found), attempt.c.outcome.in_(sorted(FINAL_OUTCOMES)))
        .where(~graphs.is_unfinished(attempt.c.job), ~topics.has_deliveries(attempt.c.job))
        .where(~ordering.is_waited_for(attempt.c.job))
        .order_by(attempt.c.job)
        .with_for_update(skip_locked=True, of=attempt)
    ).all()
    kept: set[int] = graphs.unprunable(conn, held) if held else set()
    gone = [id for id in held if id not in kept]
    if gone:
        job_admin.forget(conn, gone)
    return gone


def states(conn: Connection, which: JobFilter) -> dict[JobState, int]:
    """Count the jobs that match, by their state. A single statement."""
    state = views.jobs.c.state
    counted = select(state, func.count()).where(matching(conn, which)).group_by(state)
    return {JobState(said): jobs for said, jobs in conn.execute(counted)}


def begin(conn: Connection, dialect: Dialect, new: NewAction, now: datetime | None) -> int:
    """Write down that an action begins."""
    moment = dialect.moment(now)
    row: dict[str, Any] = {
        "who": new.who,
        "action": str(new.action),
        "change": new.change,
        "filter": new.filter,
        "ids": None if new.ids is None else json.dumps(new.ids),
        "expected": new.expected,
        "matched": 0,
        "done": 0,
        "why": "{}",
        "state": str(ActionState.RUNNING),
        "stop": False,
        "started_at": moment,
        "seen_at": moment,
    }
    written = conn.execute(insert(tables.action).values(**row))
    [id] = written.inserted_primary_key or (0,)
    return int(id)


def advance(
    conn: Connection, dialect: Dialect, id: int, came: Came, now: datetime | None = None
) -> bool:
    """Write down how far an action came; return whether it may go on."""
    facts = {"matched": came.matched, "done": came.done, "why": json.dumps(dict(came.why))}
    running = and_(_ROW.id == id, _ROW.state == str(ActionState.RUNNING))
    conn.execute(update(tables.action).where(running).values(**facts, seen_at=dialect.moment(now)))
    stop = conn.scalars(select(_ROW.stop).where(running)).first()
    return stop is not None and not stop


def end(
    conn: Connection,
    dialect: Dialect,
    id: int,
    state: ActionState,
    error: str | None = None,
    now: datetime | None = None,
) -> None:
    """Write down that an action ended."""
    moment = dialect.moment(now)
    facts = {"state": str(state), "error": error and error[:MAX_ERROR]}
    conn.execute(
        update(tables.action)
        .where(_ROW.id == id)
        .values(**facts, seen_at=moment, finished_at=moment)
    )


def stop(conn: Connection, id: int) -> bool:
    """Request that an action stops; return whether it runs. A lost one does not."""
    said = views.audit.c
    runs = select(said.id).where(said.id == id, said.state == str(ActionState.RUNNING))
    if conn.scalars(runs).first() is None:
        return False
    running = and_(_ROW.id == id, _ROW.state == str(ActionState.RUNNING))
    conn.execute(update(tables.action).where(running).values(stop=true()))
    return True


def listed(
    conn: Connection, before: int | None = None, limit: int = 100, id: int | None = None
) -> list[AuditRecord]:
    """Return actions, newest first."""
    view = views.audit
    wanted = select(view).order_by(view.c.id.desc()).limit(limit)
    if before is not None:
        wanted = wanted.where(view.c.id < before)
    if id is not None:
        wanted = wanted.where(view.c.id == id)
    return [_record(row) for row in conn.execute(wanted)]


def prune(
    conn: Connection, dialect: Dialect, before: float, limit: int, now: datetime | None = None
) -> int:
    """Forget actions that began more than `before` seconds ago, oldest first; return how many."""
    old = _ROW.started_at < dialect.moment(now, -before)
    oldest = select(_ROW.id).where(old).order_by(_ROW.started_at).limit(limit)
    found: Sequence[int] = conn.scalars(oldest).all()
    if found:
        conn.execute(delete(tables.action).where(dialect.among(_ROW.id, found)))
    return len(found)


def _record(row: Any) -> AuditRecord:
    values = row._asdict()
    values["action"], values["state"] = ActionKind(row.action), ActionState(row.state)
    values["ids"] = None if row.ids is None else tuple(read_list(row.ids, "its ids"))
    values["why"] = read_object(row.why, "its reasons")
    return AuditRecord(**values)
