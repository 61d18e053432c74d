"""Limits in the tables: create, change, remove and list them; the same on every database.

Synchronous functions of a SQLAlchemy `Connection` in a transaction; the contracts are those of
`mutirao.ports.limits`. The work of claims and of ended runs is in `rules/limits`, and on
PostgreSQL in functions. Locks are taken in one order: the lock that stops claims, live jobs,
counters. Where callers lock live jobs in no order, locked ones are skipped, and left to later
transactions (`rules/limit_catch_up`).
"""

from collections.abc import Collection
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, delete, func, insert, or_, select, update

from mutirao.model.limits.limits import LimitOrigin, LimitRecord, Rule
from mutirao.sql import schema
from mutirao.sql.dialects.base import Dialect
from mutirao.sql.drivers.kinds import through
from mutirao.sql.registry import dialect_of
from mutirao.sql.schema.tables import counter, limit, live, parked

_LEFT = "mutirao_limits_left_some"  # the key of a note at a connection
_TERMS = ("queue", "task", "by", "key", "most", "per", "burst")


def put(
    conn: Connection,
    dialect: Dialect,
    rule: Rule,
    origin: LimitOrigin = LimitOrigin.COMMAND,
    worker: str | None = None,
    now: datetime | None = None,
) -> None:
    """Create a limit, or change the one of that name."""
    keep_claims_out(conn)
    row = conn.execute(select(limit).where(limit.c.name == rule.name)).first()
    moment = dialect.moment(now)
    values: dict[str, Any] = {name: getattr(rule, name) for name in _TERMS}
    values |= {"changed_at": moment}
    if rule.start is not None:  # who changes how many keeps it
        values["start"] = rule.start
    if origin is LimitOrigin.CODE:
        declared = {"declared": rule.fingerprint, "declared_at": moment, "declared_by": worker}
        if row is not None and row.declared == rule.fingerprint:
            values = {}  # changes made at run time stay
        values |= declared | {"origin": str(origin)}
    if row is None:
        given = {"origin": str(origin), "created_at": moment, "name": rule.name}
        conn.execute(insert(limit).values(**values | given))
        _note_left(conn, through(conn, dialect.rules.open_limit(rule.name, now)))
    elif "most" in values:
        _change(conn, dialect, _to_rule(row), rule, values, now)
    else:
        conn.execute(update(limit).where(limit.c.name == rule.name).values(**values))


def remove(conn: Connection, dialect: Dialect, name: str, now: datetime | None = None) -> bool:
    """Remove a limit; return whether it existed."""
    keep_claims_out(conn)
    if conn.execute(select(limit.c.name).where(limit.c.name == name)).first() is None:
        return False
    _note_left(conn, through(conn, dialect.rules.close_limit(name, now)))
    conn.execute(delete(limit).where(limit.c.name == name))
    through(conn, dialect.rules.wake())
    return True


def put_or_remove(
    conn: Connection, dialect: Dialect, name: str, rule: Rule | None, now: datetime | None
) -> None:
    """Create or change the limit of this name, or remove it."""
    if rule is None:
        remove(conn, dialect, name, now)
    else:
        put(conn, dialect, rule, now=now)


def has_left_some(conn: Connection) -> bool:
    """Return whether limits were changed here since this was asked last, and jobs were left."""
    return bool(conn.info.pop(_LEFT, False))


def listed(conn: Connection, most: int | None = None) -> list[LimitRecord]:
    """List the limits and their counters, by name and key. A single statement.

    With `most`, only so many: those for which most jobs wait come first, then those paused.
    """
    view = schema.views.limits
    first = [] if most is None else [func.coalesce(view.c.parked, 0).desc(), view.c.paused.desc()]
    rows = conn.execute(select(view).order_by(*first, view.c.name, view.c.key).limit(most))
    return [LimitRecord(**row._asdict() | {"origin": _origin(row.origin)}) for row in rows]


def paused_queues(conn: Connection) -> list[str]:
    """List the queues that are paused, by name: all of each. A single statement."""
    return sorted({*conn.scalars(select(limit.c.queue).where(is_paused()))})


def is_paused() -> ColumnElement[bool]:
    """Return the condition that a limit is the pause of a whole queue."""
    return and_(limit.c.by.is_(None), limit.c.queue != "", limit.c.most == 0)


def _origin(said: str) -> LimitOrigin:
    """Return the origin of a limit: a command, if another program wrote an unknown value."""
    return LimitOrigin(said) if said in [*LimitOrigin] else LimitOrigin.COMMAND


def cancelled(
    conn: Connection, dialect: Dialect, jobs: Collection[int], now: datetime | None
) -> None:
    """Delete the parked rows of cancelled jobs; other jobs may be admitted instead."""
    dialect.delete_rows(conn, parked.c.job, list(jobs))
    through(conn, dialect.rules.mend_limits(now))


def doubt(conn: Connection, name: str, keys: Collection[str]) -> None:
    """Begin with few again, for each of these values. The caller keeps claims out."""
    hold(conn)
    conn.execute(
        update(counter)
        .where(counter.c.name == name, dialect_of(conn.dialect).among(counter.c.key, list(keys)))
        .values(proven=0)
    )


def doubt_one(conn: Connection, name: str, key: str) -> None:
    """Begin with few again, for one value. A single statement, which has no other lock."""
    conn.execute(
        update(counter).where(counter.c.name == name, counter.c.key == key).values(proven=0)
    )


def hold(conn: Connection) -> None:
    """Lock all counters, for a transaction that would otherwise lock some and then others."""
    found = dialect_of(conn.dialect).by_ids(select(counter.c.id), counter)
    conn.execute(found.order_by(counter.c.id).with_for_update())


def blocked(conn: Connection, jobs: Collection[int]) -> set[int]:
    """Return those of these jobs that are parked behind a limit."""
    among = dialect_of(conn.dialect).among(parked.c.job, list(jobs))
    return set(conn.scalars(select(parked.c.job).where(among)))


def _change(
    conn: Connection,
    dialect: Dialect,
    before: Rule,
    after: Rule,
    values: dict[str, Any],
    now: datetime | None,
) -> None:
    same_counters = before.covers == after.covers
    if not same_counters:
        # Not steps that wait at gates: those belong to the transaction that has their graphs.
        touched = or_(live.c.worker.is_not(None), live.c.id.in_(select(parked.c.job)))
        ids = conn.scalars(select(live.c.id).where(touched)).all()
        held = dialect.hold_live(live.c.id, ids=ids)
        passes = not dialect.rules.waits_while_holding
        conn.execute(held.with_for_update(skip_locked=passes)).all()
        hold(conn)
        _note_left(conn, through(conn, dialect.rules.close_limit(after.name, now)))
    conn.execute(update(limit).where(limit.c.name == after.name).values(**values))
    if same_counters:
        through(conn, dialect.rules.mend_limits(now))
    else:
        _note_left(conn, through(conn, dialect.rules.open_limit(after.name, now)))
        through(conn, dialect.rules.wake())


def _note_left(conn: Connection, left: bool) -> None:
    if left:
        conn.info[_LEFT] = True


def keep_claims_out(conn: Connection) -> None:
    """Wait until no claim is running, and block further ones until this transaction ends."""
    dialect_of(conn.dialect).admin.one_at_a_time(conn, "limits")


def _to_rule(row: Any) -> Rule:
    return Rule(name=row.name, start=row.start, **{name: getattr(row, name) for name in _TERMS})
