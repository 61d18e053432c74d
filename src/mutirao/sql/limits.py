"""Limits in the tables: made, changed, removed and listed. The same statements everywhere.

Synchronous functions of a SQLAlchemy `Connection` in a transaction; the contracts are those of the
methods of `mutirao.ports.Store`. What claims and the ends of runs do is in `dialects/`. Rows are
locked in one order: whoever keeps claims out, live jobs, counters.
"""

from collections.abc import Collection
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, delete, insert, or_, select, update

from mutirao.limit import LimitRecord, Origin, Rule
from mutirao.sql import views
from mutirao.sql.dialects.admin import admin_of
from mutirao.sql.dialects.base import Dialect
from mutirao.sql.tables import counter, limit, live, parked
from mutirao.unique import PARKED

_TERMS = ("queue", "task", "by", "key", "most", "per", "burst")


def put(
    conn: Connection,
    dialect: Dialect,
    rule: Rule,
    origin: Origin,
    worker: str | None,
    now: datetime | None,
) -> None:
    """Make a limit, or give the one of that name other terms."""
    _keep_claims_out(conn)
    row = conn.execute(select(limit).where(limit.c.name == rule.name)).first()
    moment = dialect.moment(now)
    values: dict[str, Any] = {name: getattr(rule, name) for name in _TERMS}
    values |= {"changed_at": moment}
    if origin is Origin.CODE:
        declared = {"declared": rule.fingerprint, "declared_at": moment, "declared_by": worker}
        if row is not None and row.declared == rule.fingerprint:
            values = {}  # what was changed at run time stays
        values |= declared | {"origin": str(origin)}
    if row is None:
        given = {"origin": str(origin), "created_at": moment, "name": rule.name}
        conn.execute(insert(limit).values(**values | given))
        dialect.open_limit(conn, rule.name, now)
    elif "most" in values:
        _change(conn, dialect, _to_rule(row), rule, values, now)
    else:
        conn.execute(update(limit).where(limit.c.name == rule.name).values(**values))


def remove(conn: Connection, dialect: Dialect, name: str, now: datetime | None) -> bool:
    """Remove a limit; tell whether there was one."""
    _keep_claims_out(conn)
    if conn.execute(select(limit.c.name).where(limit.c.name == name)).first() is None:
        return False
    dialect.close_limit(conn, name, now)
    conn.execute(delete(limit).where(limit.c.name == name))
    dialect.wake(conn)
    return True


def listed(conn: Connection) -> list[LimitRecord]:
    """List the limits with what they count, by name and key. A single statement."""
    view = views.limits
    rows = conn.execute(select(view).order_by(view.c.name, view.c.key))
    return [LimitRecord(**row._asdict() | {"origin": Origin(row.origin)}) for row in rows]


def cancelled(
    conn: Connection, dialect: Dialect, jobs: Collection[int], now: datetime | None
) -> None:
    """Forget that jobs were parked which are no more; others may have their place."""
    conn.execute(delete(parked).where(admin_of(conn.dialect).among(parked.c.job, list(jobs))))
    dialect.mend_limits(conn, now)


def hold(conn: Connection) -> None:
    """Lock all counters, for a transaction that would touch some and then others."""
    conn.execute(select(counter.c.id).order_by(counter.c.id).with_for_update())


def blocked(conn: Connection, jobs: Collection[int]) -> set[int]:
    """Return which of these jobs are parked behind a limit."""
    among = admin_of(conn.dialect).among(parked.c.job, list(jobs))
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
        touched = or_(live.c.worker.is_not(None), live.c.run_at == PARKED)
        held = select(live.c.id).where(touched).order_by(live.c.id)
        conn.execute(held.with_for_update()).all()
        dialect.close_limit(conn, after.name, now)
    conn.execute(update(limit).where(limit.c.name == after.name).values(**values))
    if same_counters:
        dialect.mend_limits(conn, now)
    else:
        dialect.open_limit(conn, after.name, now)
        dialect.wake(conn)


def _keep_claims_out(conn: Connection) -> None:
    """Wait until no claim goes on, and keep others waiting until this transaction ends."""
    admin_of(conn.dialect).one_at_a_time(conn, "limits")


def _to_rule(row: Any) -> Rule:
    return Rule(name=row.name, **{name: getattr(row, name) for name in _TERMS})
