"""Reads why a live job waits: what blocks it, and what is before it, by a few statements."""

from typing import Any

from sqlalchemy import Connection, and_, func, or_, select, union_all

from mutirao.model.brokers.doorbell import is_rung
from mutirao.model.jobs.job import JobState
from mutirao.model.reading.standing import MOST_AHEAD, Full, Standing
from mutirao.sql.schema import tables, views
from mutirao.sql.schema.tables import counter, edge, key, limit, live, ordered, parked, step

_ENDED = ("succeeded",)


def standing(conn: Connection, id: int) -> Standing | None:
    """Return how a live job stands; None if it is not live. Seven statements at most."""
    view = views.jobs.c
    job = conn.execute(
        select(view.id, view.state, view.task, view.queue, view.priority, view.run_at, view.attempt)
        .where(view.id == id)
        .limit(1)
    ).first()
    row = conn.execute(
        select(live.c.queue, live.c.run_at, live.c.worker, live.c.cancel).where(live.c.id == id)
    ).first()
    if job is None or row is None:
        return None
    state = JobState(job.state)
    waits = state is not JobState.RUNNING
    return Standing(
        **{**job._asdict(), "state": state},
        worker=row.worker,
        cancelling=bool(row.cancel),
        carried=is_rung(row.queue),
        paused=_paused(conn, job.queue, job.task) if waits else (),
        full=_full(conn, id) if waits else None,
        held_by=_held_by(conn, id) if waits else None,
        after=_after(conn, id) if waits else (),
        ahead=_ahead(conn, job, row, id) if state is JobState.READY else 0,
    )


def _paused(conn: Connection, queue: str, task: str) -> tuple[str, ...]:
    of_queue = and_(limit.c.queue == queue, or_(limit.c.task.is_(None), limit.c.task == task))
    named = or_(of_queue, and_(limit.c.queue.is_(None), limit.c.task == task))
    nothing = select(limit.c.name).where(limit.c.most == 0, limit.c.by.is_(None), named)
    return tuple(conn.scalars(nothing.order_by(limit.c.name)))


def _full(conn: Connection, id: int) -> Full | None:
    row = conn.execute(
        select(counter.c.name, counter.c.key, counter.c.running, limit.c.most, limit.c.per)
        .join(parked, parked.c.counter == counter.c.id)
        .outerjoin(limit, limit.c.name == counter.c.name)
        .where(parked.c.job == id)
    ).first()
    if row is None:
        return None
    return Full(limit=row.name, key=row.key, most=row.most, per=row.per, running=row.running)


def _held_by(conn: Connection, id: int) -> int | None:
    wait = tables.supersede_wait.c
    unique = select(key.c.after).join(live, live.c.id == key.c.after).where(key.c.job == id)
    superseding = select(wait.after).where(wait.job == id)
    return conn.scalars(union_all(unique, superseding)).first()


def _after(conn: Connection, id: int) -> tuple[int, ...]:
    """Return the steps before it that have not succeeded, and the delivery before it."""
    mine, first = step.alias("mine"), step.alias("first")
    steps = (
        select(first.c.job)
        .join(edge, edge.c.step == first.c.id)
        .join(mine, mine.c.gate == edge.c.gate)
        .where(mine.c.job == id, or_(first.c.outcome.is_(None), first.c.outcome.not_in(_ENDED)))
        .limit(MOST_AHEAD)
    )
    delivery = select(ordered.c.after).where(ordered.c.job == id, ordered.c.after.is_not(None))
    return tuple(sorted({*conn.scalars(steps), *conn.scalars(delivery)}))


def _ahead(conn: Connection, job: Any, row: Any, id: int) -> int:
    before = or_(live.c.run_at < row.run_at, and_(live.c.run_at == row.run_at, live.c.id < id))
    some = (
        select(live.c.id)
        .where(live.c.queue == row.queue, live.c.priority == job.priority, before)
        .where(live.c.worker.is_(None))
        .order_by(live.c.run_at, live.c.id)
        .limit(MOST_AHEAD)
        .subquery()
    )
    return conn.scalars(select(func.count()).select_from(some)).one()
