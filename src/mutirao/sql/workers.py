"""Workers, their heartbeats and the leases of their duties: the same statements everywhere."""

from collections.abc import Collection
from datetime import datetime

from sqlalchemy import Connection, Table, and_, delete, insert, or_, select, update

from mutirao.job import Beat, NewWorker
from mutirao.schedule import Origin
from mutirao.sql.dialects.admin import admin_of
from mutirao.sql.dialects.base import Dialect
from mutirao.sql.tables import duty, live, next_run, worker


def register(
    conn: Connection, dialect: Dialect, new: NewWorker, expiry: float, now: datetime | None
) -> int:
    """Add a worker; return its id. A single statement."""
    started = dialect.moment(now)
    row = conn.execute(
        insert(worker)
        .values(
            name=new.name,
            host=new.host,
            pid=new.pid,
            queues=None if new.queues is None else list(new.queues),
            concurrency=new.concurrency,
            version=new.version,
            started_at=started,
            beat_at=started,
            expires_at=dialect.moment(now, expiry),
            listening=True,
            stuck=0,
            late=0.0,
        )
        .returning(worker.c.id)
    )
    return int(row.scalar_one())


def beat(
    conn: Connection,
    dialect: Dialect,
    id: int,
    expiry: float,
    stuck: int,
    late: float,
    now: datetime | None,
) -> Beat:
    """Prolong a worker's life; read which of its jobs to cancel.

    Needs no transaction, and must not have one: a machine paused in it would keep the row locked.
    One statement, unless there is something to cancel.
    """
    moment, expires = dialect.moment(now), dialect.moment(now, expiry)
    alive = conn.execute(
        update(worker)
        .where(worker.c.id == id)
        .values(beat_at=moment, expires_at=expires, stuck=stuck, late=late)
        .returning(dialect.has_to_cancel(id))
    ).scalar()
    if not alive:  # None if there is no such worker, else whether there is anything to cancel
        return Beat(alive is not None, ())
    cancelled = conn.execute(select(live.c.id, live.c.run).where(dialect.to_cancel_by(id)))
    return Beat(True, tuple((row[0], row[1]) for row in cancelled))


def listen(conn: Connection, id: int, listening: bool) -> None:
    """Say whether a worker wants to be notified. A single statement."""
    conn.execute(update(worker).where(worker.c.id == id).values(listening=listening))


def retire(conn: Connection, dialect: Dialect, id: int) -> None:
    """Give back what a worker holds and remove it. The new run fences a late settlement off.

    Its own row first: whoever rescues from it passes that over, and waits for counters of limits.
    """
    conn.execute(delete(worker).where(worker.c.id == id))
    held = select(live.c.id).where(dialect.held_by(id)).order_by(live.c.id).with_for_update()
    given = conn.scalars(
        update(live)
        .where(admin_of(conn.dialect).among(live.c.id, conn.scalars(held).all()))
        .values(worker=None, claimed_at=None, attempt=live.c.attempt - 1, run=next_run())
        .returning(live.c.id)
    ).all()
    if given:
        dialect.let_go(conn, given, None)


def held(conn: Connection, dialect: Dialect, id: int) -> list[tuple[int, int]]:
    """Return (id, run) of the jobs a worker holds. A single statement."""
    rows = conn.execute(select(live.c.id, live.c.run).where(dialect.held_by(id)))
    return [(row[0], row[1]) for row in rows]


def unlocked(conn: Connection, jobs: Collection[int]) -> set[int]:
    """Return which of these live jobs nobody has locked. A single statement."""
    which = admin_of(conn.dialect).among(live.c.id, list(jobs))
    rows = conn.scalars(select(live.c.id).where(which).with_for_update(skip_locked=True))
    return set(rows)


def lease(
    conn: Connection,
    dialect: Dialect,
    name: str,
    id: int,
    ttl: float,
    every: float,
    now: datetime | None,
) -> bool:
    """Try to take a duty whose lease has ended and whose turn has come.

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
    first = dialect.insert_unless_exists(duty).values(
        name=name, worker=id, taken_at=moment, expires_at=expires
    )
    # The row itself tells: the count of an INSERT is not kept for every driver.
    return conn.execute(first.returning(duty.c.name)).first() is not None


def vouch(
    conn: Connection,
    declared: Table,
    dialect: Dialect,
    names: Collection[str],
    worker: str,
    every: float,
    now: datetime | None,
) -> None:
    """Note what of a table (schedules, limits) is in a worker's code. A single statement.

    Waits for no lock: a machine paused in a transaction may hold one for long.
    """
    old = (
        select(declared.c.name)
        .where(
            declared.c.name.in_(names),
            declared.c.origin == str(Origin.CODE),
            declared.c.declared_at < dialect.moment(now, -every),
        )
        .order_by(declared.c.name)
        .with_for_update(skip_locked=True)
    )
    conn.execute(
        update(declared)
        .where(declared.c.name.in_(old))
        .values(declared_at=dialect.moment(now), declared_by=worker)
    )
