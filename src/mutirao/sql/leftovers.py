"""What may be left behind in the tables, by hands or by old defects: found, counted and mended.

Each kind is a condition that no commit of ours leaves true. Housekeeping mends, a little at a time,
what nobody has locked; `doctor` counts. The same statements everywhere.
"""

from collections.abc import Callable
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
    update,
)

from mutirao.sql.dialects.admin import admin_of
from mutirao.sql.dialects.base import Dialect
from mutirao.sql.tables import gate, job, key, live, parked, series, step, turn
from mutirao.unique import PARKED

AT_ONCE = 1_000  # rows that a statement mends

_later = turn.alias("later")


class Leftover(NamedTuple):
    """A kind of what is left behind.

    Parameters:
        what: it is, in the plural.
        table, id: whose rows it is about, and what names them.
        where: they are left behind.
        mend: does what is to be done with those of these names.
    """

    what: str
    table: Table
    id: ColumnElement[int]
    where: ColumnElement[bool]
    mend: Callable[[Connection, list[int]], Any]

    def found(self) -> Select[Any]:
        """Return the names of such rows."""
        return select(self.id).select_from(self.table).where(self.where)


def count(conn: Connection) -> dict[str, int]:
    """Count what is left behind, by what it is; what is not found is left out."""
    numbers = {
        each.what: conn.scalars(select(func.count()).select_from(each.found().subquery())).one()
        for each in LEFTOVERS
    }
    return {what: number for what, number in numbers.items() if number}


def mend(conn: Connection, dialect: Dialect, now: datetime | None) -> dict[str, int]:
    """Mend some of each kind that nobody has locked; return how many, by what they are."""
    mended: dict[str, int] = {}
    for each in LEFTOVERS:
        held = each.found().limit(AT_ONCE).with_for_update(skip_locked=True, of=each.table)
        if ids := list(conn.scalars(held)):
            each.mend(conn, ids)
            mended[each.what] = len(ids)
    if mended:
        dialect.mend_limits(conn, now)
        dialect.wake(conn)
    return mended


def _is_live(id: ColumnElement[Any]) -> ColumnElement[bool]:
    return exists().where(live.c.id == id).correlate_except(live)


def _is_known(id: ColumnElement[Any]) -> ColumnElement[bool]:
    return exists().where(job.c.id == id).correlate_except(job)


def _removed(table: Table, id: ColumnElement[int]) -> Callable[[Connection, list[int]], Any]:
    return lambda conn, ids: conn.execute(delete(table).where(_among(conn, id, ids)))


def _let_go(conn: Connection, ids: list[int]) -> None:
    """Give jobs their own time."""
    own = select(job.c.run_at).where(job.c.id == live.c.id).scalar_subquery()
    conn.execute(update(live).where(_among(conn, live.c.id, ids)).values(run_at=own))
    conn.execute(delete(turn).where(_among(conn, turn.c.job, ids)))


def _among(conn: Connection, id: ColumnElement[int], ids: list[int]) -> ColumnElement[bool]:
    return admin_of(conn.dialect).among(id, ids)


# Why a job may be blocked: a job before it, by a key or in a series; a limit; a gate of its graph.
_waits_for_a_key = exists().where(key.c.job == live.c.id, _is_live(key.c.after))
_waits_for_a_turn = exists().where(
    turn.c.job == live.c.id,
    or_(
        _is_live(turn.c.after),
        exists().where(_later.c.job == turn.c.after).correlate_except(_later),
    ),
)
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
            ~_waits_for_a_turn.correlate(live),
            ~_waits_for_a_limit.correlate(live),
            ~_waits_for_a_gate.correlate(live),
        ),
        _let_go,
    ),
    Leftover(
        "places behind limits of jobs that have ended",
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
    Leftover(
        "places in series of jobs that have ended",
        *(turn, turn.c.job),
        and_(
            ~_is_live(turn.c.job),
            ~exists().where(_later.c.after == turn.c.job).correlate_except(_later),
        ),
        _removed(turn, turn.c.job),
    ),
    Leftover(
        "series of jobs that are no more",
        *(series, series.c.last),
        and_(
            ~_is_known(series.c.last),
            ~exists().where(turn.c.job == series.c.last).correlate_except(turn),
        ),
        _removed(series, series.c.last),
    ),
)
