"""Finds, counts and repairs rows that no commit of Mutirão leaves behind, and orphans for `doctor`.

Each kind is a condition that no commit of ours leaves true. Housekeeping repairs rows that no other
transaction has locked, a few at a time; `doctor` counts them. The same on every database.

Foreign keys delete none of them: deleting an endpoint must also release what its limits hold.
"""

from collections.abc import Callable, Collection
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    Table,
    and_,
    delete,
    exists,
    func,
    or_,
    select,
)

from mutirao.model.keys.uniqueness import PARKED
from mutirao.model.limits.limits import LimitRecord
from mutirao.model.topics.subscriptions import SubscriptionKind, limit_names
from mutirao.model.topics.topics import SUBSCRIPTION
from mutirao.model.webhooks.endpoints import OF_ENDPOINT, limits_of
from mutirao.sql.dialects.base import Dialect
from mutirao.sql.drivers.kinds import through
from mutirao.sql.registry import dialect_of
from mutirao.sql.schema.tables import (
    endpoint,
    gate,
    job,
    key,
    live,
    parked,
    step,
    subscription,
    supersede_last,
    supersede_task,
    supersede_wait,
    unjudged,
)
from mutirao.sql.statements import ordering, subscriptions

MAX_ROWS_PER_REPAIR = 1_000  # rows repaired by one statement

_ahead = supersede_wait.alias("ahead")


class Leftover(NamedTuple):
    """A kind of leftover.

    Parameters:
        what: its name, in the plural.
        table, id: the table of its rows, and the column that identifies them.
        where: the condition under which a row is a leftover.
        mend: repairs the rows with these ids.
    """

    what: str
    table: Table
    id: ColumnElement[int]
    where: ColumnElement[bool]
    mend: Callable[[Connection, list[int]], Any]

    def found(self) -> Select[Any]:
        """Return a query for the ids of such rows."""
        return select(self.id).select_from(self.table).where(self.where)


def count(conn: Connection) -> dict[str, int]:
    """Count the leftovers of each kind; kinds without any are left out."""
    numbers = {
        each.what: conn.scalars(select(func.count()).select_from(each.found().subquery())).one()
        for each in LEFTOVERS
    }
    return {what: number for what, number in numbers.items() if number}


def mend(conn: Connection, dialect: Dialect, now: datetime | None) -> dict[str, int]:
    """Repair some unlocked leftovers of each kind; return how many, by kind.

    Looking locks nothing: InnoDB would lock each row that is looked at, all live ones, and callers
    met that with what they had locked themselves.
    """
    mended: dict[str, int] = {}
    for each in LEFTOVERS:
        seen = list(conn.scalars(each.found().limit(MAX_ROWS_PER_REPAIR)))
        if ids := _still(conn, each, _held(conn, each, seen)):
            each.mend(conn, ids)
            mended[each.what] = len(ids)
    if mended:
        through(conn, dialect.rules.mend_limits(now))
        through(conn, dialect.rules.wake())
    return mended


def _held(conn: Connection, kind: Leftover, ids: list[int]) -> list[int]:
    """Lock those of some rows that are not locked, and return them."""
    rows = select(kind.id).where(_among(conn, kind.id, ids)).order_by(kind.id)
    return list(conn.scalars(rows.with_for_update(skip_locked=True))) if ids else []


def _still(conn: Connection, kind: Leftover, ids: list[int]) -> list[int]:
    """Return those of some rows, which are locked, that are leftovers now, too.

    Not in the statement that locks: on MySQL that sees rows as they are, but in its subqueries what
    was committed when it began.
    """
    return list(conn.scalars(kind.found().where(_among(conn, kind.id, ids)))) if ids else []


def _is_live(id: ColumnElement[Any]) -> ColumnElement[bool]:
    return exists().where(live.c.id == id).correlate_except(live)


def _is_known(id: ColumnElement[Any]) -> ColumnElement[bool]:
    return exists().where(job.c.id == id).correlate_except(job)


def _removed(table: Table, id: ColumnElement[int]) -> Callable[[Connection, list[int]], Any]:
    return lambda conn, ids: conn.execute(delete(table).where(_among(conn, id, ids)))


def _let_go(conn: Connection, ids: list[int]) -> None:
    """Make blocked jobs due at their own `run_at`."""
    own = select(job.c.run_at).where(job.c.id == live.c.id).scalar_subquery()
    conn.execute(
        dialect_of(conn.dialect)
        .update_live()
        .where(_among(conn, live.c.id, ids))
        .values(run_at=own)
    )
    dialect_of(conn.dialect).delete_rows(conn, supersede_wait.c.job, ids)
    ordering.let_go(conn, dialect_of(conn.dialect), ids)


def _among(conn: Connection, id: ColumnElement[int], ids: list[int]) -> ColumnElement[bool]:
    return dialect_of(conn.dialect).among(id, ids)


# A job may be blocked by an earlier job of its key, with or without supersede; by a limit; by a
# gate of its graph; or by an earlier delivery of its line.
_waits_for_a_key = exists().where(key.c.job == live.c.id, _is_live(key.c.after))
_somebody_is_ahead = or_(
    _is_live(supersede_wait.c.after),
    exists().where(_ahead.c.job == supersede_wait.c.after).correlate_except(_ahead),
)
_waits_for_another = exists().where(supersede_wait.c.job == live.c.id, _somebody_is_ahead)
_is_ruled = (
    exists()
    .where(supersede_task.c.task == job.c.task, job.c.id == unjudged.c.job)
    .correlate_except(supersede_task, job)
)
_waits_for_a_rule = exists().where(unjudged.c.job == live.c.id, _is_ruled)
_waits_for_a_limit = exists().where(parked.c.job == live.c.id)
_waits_for_a_gate = exists().where(
    step.c.job == live.c.id,
    step.c.outcome.is_(None),
    step.c.gate == gate.c.id,
    gate.c.unfinished > 0,
)

LEFTOVERS = (
    Leftover(
        "live rows of jobs that are no more",
        *(live, live.c.id),
        ~_is_known(live.c.id),
        _removed(live, live.c.id),
    ),
    Leftover(
        "jobs that are blocked by nothing",
        *(live, live.c.id),
        and_(
            live.c.run_at == PARKED,
            live.c.worker.is_(None),
            _is_known(live.c.id),
            ~_waits_for_a_key.correlate(live),
            ~_waits_for_another.correlate(live),
            ~_waits_for_a_rule.correlate(live),
            ~_waits_for_a_limit.correlate(live),
            ~_waits_for_a_gate.correlate(live),
            ~ordering.waits_for_its_turn(live.c.id),
        ),
        _let_go,
    ),
    Leftover(
        "rows of jobs that SQL enqueued under a rule and that do not wait for it",
        *(unjudged, unjudged.c.job),
        or_(~_is_live(unjudged.c.job), ~_is_ruled),
        _removed(unjudged, unjudged.c.job),
    ),
    Leftover(
        "rows of jobs that waited for a limit and have ended",
        *(parked, parked.c.job),
        ~_is_live(parked.c.job),
        _removed(parked, parked.c.job),
    ),
    Leftover(
        "keys of jobs that are no more",
        *(key, key.c.job),
        and_(~_is_known(key.c.job), ~_is_live(key.c.job), ~_is_live(key.c.after)),
        _removed(key, key.c.job),
    ),
    # As long as another job is ahead, the next one with its key learns of that one from this row.
    Leftover(
        "rows of jobs that waited for another one of their key and have ended",
        *(supersede_wait, supersede_wait.c.job),
        and_(~_is_live(supersede_wait.c.job), ~_somebody_is_ahead),
        _removed(supersede_wait, supersede_wait.c.job),
    ),
    Leftover(
        "supersede rows of jobs that do not exist any more",
        *(supersede_last, supersede_last.c.last),
        and_(
            ~_is_known(supersede_last.c.last),
            ~exists()
            .where(supersede_wait.c.job == supersede_last.c.last)
            .correlate_except(supersede_wait),
        ),
        _removed(supersede_last, supersede_last.c.last),
    ),
)


def limits_of_no_subscription(conn: Connection, found: Collection[LimitRecord]) -> list[str]:
    """Return the names of the limits of subscriptions that are not there any more."""
    whose = {
        each.name: each.key
        for each in found
        if each.by == SUBSCRIPTION and each.key and each.name in limit_names(each.key)
    }
    rows = subscriptions.named(conn, dialect_of(conn.dialect), [*whose.values()]) if whose else ()
    there = {row.id for row in rows}
    return [name for name, id in whose.items() if id not in there]


class LeftEndpoints(NamedTuple):
    """Ids of endpoints: of which only a subscription or limits are left, or which lack theirs."""

    gone: list[str]
    unsubscribed: list[str]


def endpoints(conn: Connection, found: Collection[LimitRecord]) -> LeftEndpoints:
    """Return the endpoints whose row or subscription was deleted by hand."""
    limited = {each.key for each in found if each.key and each.name in limits_of(each.key)}
    kind = subscription.c.kind == str(SubscriptionKind.ENDPOINT)
    names = conn.scalars(select(subscription.c.id).where(kind))
    subscribed = {name.removeprefix(OF_ENDPOINT) for name in names}
    there = set(conn.scalars(select(endpoint.c.id)))
    return LeftEndpoints(sorted((subscribed | limited) - there), sorted(there - subscribed))
