"""Workers, their heartbeats and the leases of their duties; the same on every database."""

from collections.abc import Collection
from datetime import datetime
from typing import Any, cast

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    Table,
    and_,
    delete,
    insert,
    or_,
    select,
    update,
)

from mutirao.model.deploys import Deployed, Served
from mutirao.model.jobs.job import Beat, NewWorker
from mutirao.model.schedules.schedule import ScheduleOrigin
from mutirao.sql.dialects.base import Dialect
from mutirao.sql.drivers.kinds import through
from mutirao.sql.registry import dialect_of
from mutirao.sql.schema.tables import duty, live, next_run, worker
from mutirao.sql.statements.carried import own_lane


def register(
    conn: Connection, dialect: Dialect, new: NewWorker, expiry: float, now: datetime | None
) -> int:
    """Register a worker; return its id. A single statement."""
    started = dialect.moment(now)
    row = conn.execute(
        insert(worker).values(
            name=new.name,
            host=new.host,
            pid=new.pid,
            queues=None if new.queues is None else list(new.queues),
            exclude_queues=list(new.exclude_queues) or None,
            tasks=None if new.tasks is None else list(new.tasks),
            concurrency=new.concurrency,
            version=new.version,
            app_version=new.app_version,
            started_at=started,
            beat_at=started,
            expires_at=dialect.moment(now, expiry),
            listening=True,
            stuck=0,
            late=0.0,
        )
    )
    [id] = cast("tuple[int]", row.inserted_primary_key)
    return id


def beat(
    conn: Connection,
    dialect: Dialect,
    id: int,
    expiry: float,
    stuck: int,
    late: float,
    duty_name: str | None,
    now: datetime | None,
) -> Beat:
    """Extend a worker's life; read which of its jobs to cancel, and whether another holds a duty.

    Needs no transaction, and must not have one: a machine paused in it would keep the row locked.
    One statement, unless there is something to cancel.
    """
    moment, expires = dialect.moment(now), dialect.moment(now, expiry)
    beaten = (
        update(worker)
        .where(worker.c.id == id)
        .values(beat_at=moment, expires_at=expires, stuck=stuck, late=late)
    )
    wanted: list[ColumnElement[Any]] = [dialect.has_to_cancel(id)]
    if duty_name is not None:
        wanted += [_elsewhere(duty_name, id).scalar_subquery(), moment]
    row = dialect.update_returning(conn, beaten, *wanted)
    if row is None:
        return Beat(False, ())
    to_cancel, *held = tuple(row)
    left = _left(*held) if held else 0.0
    if not to_cancel:
        return Beat(True, (), left)
    cancelled = conn.execute(select(live.c.id, live.c.run).where(dialect.to_cancel_by(id)))
    return Beat(True, tuple((row[0], row[1]) for row in cancelled), left)


def deployed(conn: Connection, dialect: Dialect, but: str, now: datetime | None) -> list[Deployed]:
    """Return what live workers serve that have beaten, of other versions than `but`.

    A single statement. It finds nothing but while two versions run.
    """
    rows = conn.execute(
        select(worker.c.app_version, worker.c.queues, worker.c.exclude_queues, worker.c.tasks)
        .where(worker.c.app_version.is_not(None), worker.c.app_version != but)
        .where(worker.c.concurrency > 0)  # others relay, and run no job
        .where(worker.c.expires_at > dialect.moment(now), worker.c.beat_at > worker.c.started_at)
    )
    return [
        Deployed(version, Served(_names(queues), _names(others) or (), _names(tasks)))
        for version, queues, others, tasks in rows
    ]


def _names(found: Any) -> tuple[str, ...] | None:
    """Return the names that a worker's row has; none, if another program wrote something else."""
    if found is None:
        return None
    return tuple(each for each in found if isinstance(each, str)) if type(found) is list else ()


def listen(conn: Connection, id: int, listening: bool) -> None:
    """Record whether a worker wants notifications. A single statement."""
    conn.execute(update(worker).where(worker.c.id == id).values(listening=listening))


def retire(conn: Connection, dialect: Dialect, id: int) -> None:
    """Release what a worker holds and remove it. The new run fences off a late settlement.

    Its own row is locked first: a rescue skips that row, and waits for counters of limits.
    """
    conn.execute(delete(worker).where(worker.c.id == id))
    held = select(live.c.id).where(dialect.held_by(id)).order_by(live.c.id).with_for_update()
    if given := conn.scalars(held).all():
        conn.execute(
            dialect.update_live()
            .where(dialect.among(live.c.id, given))
            .values(worker=None, claimed_at=None, attempt=live.c.attempt - 1, run=next_run())
            .values(queue=own_lane())
        )
        through(conn, dialect.rules.let_go(given, None))


def held(conn: Connection, dialect: Dialect, id: int) -> list[tuple[int, int]]:
    """Return (id, run) of the jobs that a worker holds. A single statement."""
    rows = conn.execute(select(live.c.id, live.c.run).where(dialect.held_by(id)))
    return [(row[0], row[1]) for row in rows]


def note_start(
    conn: Connection, worker: int, job: tuple[int, int], lost: int, attempt: int
) -> bool:
    """Store what a start is counted as; return False if the worker has that run no more."""
    noted = (
        update(live)
        .where(live.c.id == job[0], live.c.run == job[1], live.c.worker == worker)
        .values(lost=lost, attempt=attempt)
    )
    return conn.execute(noted).rowcount > 0


def unlocked(conn: Connection, jobs: Collection[int]) -> set[int]:
    """Return those of these live jobs that no other transaction has locked. A single statement."""
    held = dialect_of(conn.dialect).hold_live(live.c.id, ids=list(jobs))
    return set(conn.scalars(held.with_for_update(skip_locked=True)))


def lease(
    conn: Connection,
    dialect: Dialect,
    name: str,
    id: int,
    ttl: float,
    every: float,
    now: datetime | None,
) -> bool:
    """Try to take a duty whose lease has ended and which is due; return whether that succeeded.

    Needs no transaction, and must not have one: a machine paused in it would keep the duty locked,
    for longer than any lease.
    """
    moment, expires = dialect.moment(now), dialect.moment(now, ttl)
    free = or_(duty.c.expires_at <= moment, duty.c.worker == id)
    taken = conn.execute(
        update(duty)
        .where(and_(duty.c.name == name, free, duty.c.taken_at <= dialect.moment(now, -every)))
        .values(worker=id, taken_at=moment, expires_at=expires)
    )
    if taken.rowcount == 1:
        return True
    first = {"name": name, "worker": id, "taken_at": moment, "expires_at": expires}
    return dialect.write_new(conn, duty, first)


def held_elsewhere(
    conn: Connection, dialect: Dialect, name: str, id: int, now: datetime | None
) -> float:
    """Return the seconds for which another worker holds a duty. A single statement."""
    row = conn.execute(_elsewhere(name, id).add_columns(dialect.moment(now).label("now"))).first()
    return 0.0 if row is None else _left(*row)


def _left(until: datetime | None, now: datetime) -> float:
    """Return the seconds until a lease ends."""
    return 0.0 if until is None else max(0.0, (until - now).total_seconds())


def _elsewhere(name: str, id: int) -> Select[tuple[datetime]]:
    """Select until when another worker holds a duty."""
    return select(duty.c.expires_at).where(duty.c.name == name, duty.c.worker != id)


def confirm_declared(
    conn: Connection,
    declared: Table,
    dialect: Dialect,
    names: Collection[str],
    worker: str,
    every: float,
    now: datetime | None,
) -> None:
    """Record which rows (`declared`, of a name or id) are in a worker's code. A single statement.

    Waits for no lock: a machine paused in a transaction may hold one for long.
    """
    [name] = declared.primary_key.columns
    old = and_(
        name.in_(names),
        declared.c.origin == str(ScheduleOrigin.CODE),
        declared.c.declared_at < dialect.moment(now, -every),
    )
    values = {"declared_at": dialect.moment(now), "declared_by": worker}
    dialect.update_free(conn, declared, old, values)
