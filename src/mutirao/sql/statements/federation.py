"""Federation in the tables: hosts, and the last activities sent; the same on every database.

Synchronous functions of a SQLAlchemy `Connection` in a transaction; the contracts are those of
`mutirao.ports.federation`.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, fields
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, delete, exists, func, select, update

from mutirao.model.federation.activities import Said
from mutirao.model.federation.hosts import (
    BY,
    DELIVER,
    Amend,
    Host,
    HostRecord,
    HostState,
    limit_name,
    limit_of,
    probe_of,
)
from mutirao.model.jobs.job import NewJob
from mutirao.sql.dialects.base import Dialect
from mutirao.sql.schema.tables import attempt, host as hosts, job, live, said as said_last
from mutirao.sql.statements import limits

Enqueue = Callable[[Sequence[NewJob], Any], object]

_FIELDS = [each.name for each in fields(Host)]
_NAMED = select(*(hosts.c[name] for name in _FIELDS))


def host(conn: Connection, name: str) -> Host | None:
    """Return the known state of a host."""
    row = conn.execute(_NAMED.where(hosts.c.name == name)).first()
    return None if row is None else _to_host(row)


def change(
    conn: Connection,
    dialect: Dialect,
    enqueue: Enqueue,
    name: str,
    amend: Amend,
    queue: str,
    now: datetime | None,
) -> Host:
    """Change the state of a host, with its limit, and enqueue its probe."""
    moment = conn.scalars(select(dialect.moment(now))).one()
    before = host(conn, name) or Host(name=name)
    if amend(before, moment) == before:
        return before
    limits.keep_claims_out(conn)  # before the row, as everywhere
    dialect.write_new(conn, hosts, asdict(before))
    mine = hosts.c.name == name
    before = _to_host(conn.execute(_NAMED.where(mine).with_for_update()).one())
    after = amend(before, moment)
    if after == before:
        return before
    values = asdict(after) | {"changed_at": moment}
    conn.execute(update(hosts).where(mine).values(**values))
    after = Host(**values)
    rule = limit_of(after)
    if rule is None or rule != limit_of(before):
        limits.put_or_remove(conn, dialect, limit_name(name), rule, now)
    if jobs := probe_of(before, after, queue):
        enqueue(jobs, conn)
    return after


def forget(conn: Connection, dialect: Dialect, name: str, now: datetime | None = None) -> bool:
    """Delete a host's record, its limit, and the activities noted as sent to it."""
    limits.remove(conn, dialect, limit_name(name), now)
    conn.execute(delete(said_last).where(said_last.c.host == name))
    known = host(conn, name) is not None
    conn.execute(delete(hosts).where(hosts.c.name == name))
    return known


def listed(conn: Connection, counted: bool = True) -> list[HostRecord]:
    """List hosts that are known, or have deliveries, by name.

    Reads what is live and what is dead. Where the jobs were asked first, SQLite read all of them.
    Without `counted` only what is known is read: deliveries are not counted.
    """
    known = {row.name: _to_host(row) for row in conn.execute(_NAMED)}
    if not counted:
        return [HostRecord(**asdict(known[name])) for name in sorted(known)]
    waiting = _counted(conn, job.c.id.in_(select(live.c.id)))
    again = job.alias("again")
    died = job.c.id.in_(select(attempt.c.job).where(attempt.c.outcome == "dead"))
    dead = _counted(conn, died, ~exists().where(again.c.redrive_of == job.c.id))
    return [
        HostRecord(
            **asdict(known.get(name) or Host(name=name)),
            waiting=waiting.get(name, 0),
            dead=dead.get(name, 0),
        )
        for name in sorted({*known, *waiting, *dead})
    ]


def last_said(conn: Connection, about: str) -> Said | None:
    """Return the last activity about something that has arrived."""
    row = conn.execute(
        select(said_last.c.kind, said_last.c.digest, said_last.c.job).where(
            said_last.c.about == about
        )
    ).first()
    return None if row is None else Said(*row)


def note_said(
    conn: Connection,
    dialect: Dialect,
    about: str,
    host: str,
    said: Said,
    now: datetime | None = None,
) -> None:
    """Record which activity about something has arrived last."""
    row = {"about": about, "host": host, **said._asdict(), "said_at": dialect.moment(now)}
    dialect.put_row(conn, said_last, row)


def unsay(conn: Connection, about: str) -> None:
    """Forget which activity about something has arrived last."""
    conn.execute(delete(said_last).where(said_last.c.about == about))


def prune_said(
    conn: Connection, dialect: Dialect, before: float, limit: int, now: datetime | None = None
) -> int:
    """Forget what arrived more than `before` seconds ago, oldest first; return how many."""
    is_old = said_last.c.said_at < dialect.moment(now, -before)
    old = select(said_last.c.about).where(is_old).order_by(said_last.c.said_at).limit(limit)
    which = dialect.among(said_last.c.about, conn.scalars(old).all())
    # It may have been set again meanwhile.
    return conn.execute(delete(said_last).where(which, is_old)).rowcount


def _counted(conn: Connection, *which: ColumnElement[bool]) -> dict[str, int]:
    """Count deliveries by host."""
    name = job.c.args[BY].as_string()
    rows = conn.execute(
        select(name, func.count()).where(job.c.task == DELIVER, *which).group_by(name)
    )
    return {name: count for name, count in rows if name is not None}


def _to_host(row: Any) -> Host:
    return Host(**row._asdict() | {"state": HostState(row.state)})
