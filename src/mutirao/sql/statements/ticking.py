"""The ticks of due schedules, many in one transaction.

The schedules are locked first, and locked ones skipped, so that several workers take different
ones. An error of one schedule, by its row or the database, concerns that schedule alone: the others
are written, with the same locks.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, bindparam, select, update

from mutirao.errors import SchemaError, StoreGone, StoreUnavailable
from mutirao.model.row_json import only_texts
from mutirao.model.schedules import schedule_rules
from mutirao.model.schedules.schedule import MAX_CATCH_UP, ScheduleState, Ticked, TickResult
from mutirao.sql.dialects.base import Dialect
from mutirao.sql.drivers.failures import translated
from mutirao.sql.enqueue.intake import Enqueue
from mutirao.sql.schema.tables import schedule
from mutirao.sql.statements.schedules import (
    deaths,
    facts_in,
    is_live,
    is_open,
    make,
    read,
    with_last,
)

# The columns that a tick changes.
_MOVES = (
    "paused", "reason", "awaiting", "next_at", "last_tick", "last_job", "runs", "skipped",
    "changed_at",
)  # fmt: skip
_MOVE = (
    update(schedule)
    .where(schedule.c.name == bindparam("of"))
    .values({name: bindparam(f"to_{name}") for name in _MOVES})
)


class _Decided(NamedTuple):
    """A schedule that is to change, and the jobs to be made."""

    name: str
    before: ScheduleState
    after: ScheduleState
    ticks: Sequence[Ticked]


@dataclass(frozen=True, slots=True)
class Batch:
    """Some of the schedules that are due, to tick in one transaction.

    Parameters:
        limit: the maximum number of them.
        without: the names of those that are left alone.
    """

    dialect: Dialect
    enqueue: Enqueue
    limit: int
    without: Collection[str]
    now: datetime | None

    def write(self, conn: Connection) -> list[TickResult]:
        """Lock them, decide what each does, and write it."""
        names = self._hold(conn)
        rows = {row.name: row for row in read(conn, self.dialect, names, self.now)}
        dead = deaths(conn, self.dialect, list(rows.values()))
        decided: list[_Decided] = []
        refused: list[TickResult] = []
        jobs = 0
        for name in names:
            try:
                decided.append(_decide(rows[name], dead))
            except Exception as error:  # noqa: BLE001 (returned; it must not affect the others)
                refused.append(TickResult(name, None, error=error))
            else:
                jobs += len(decided[-1].ticks)
            if jobs >= MAX_CATCH_UP:
                break  # the rest is as due as it was
        return [*refused, *self._write(conn, decided)]

    def _hold(self, conn: Connection) -> list[str]:
        """Lock schedules whose awaited job has ended, then those whose tick has come."""
        is_left = is_open(self.dialect, self.without)
        ended = (
            select(schedule.c.name)
            .where(schedule.c.awaiting, ~is_live(schedule.c.last_job), is_left)
            .limit(max(1, self.limit // 2))
            .with_for_update(skip_locked=True)
        )
        names = only_texts(conn.scalars(ended))
        come = (
            select(schedule.c.name)
            .where(schedule.c.next_at.is_not(None), is_left)
            .where(schedule.c.next_at <= self.dialect.moment(self.now))
            .order_by(schedule.c.next_at)
            .limit(self.limit - len(names))
            .with_for_update(skip_locked=True)
        )
        return names + only_texts(conn.scalars(come))

    def _write(self, conn: Connection, decided: Sequence[_Decided]) -> list[TickResult]:
        """Write them; halve them until those are found that the database refuses."""
        if not decided:
            return []
        savepoint = conn.begin_nested()
        try:
            done = self._write_all(conn, decided)
        except Exception as error:
            refusal = translated(error) or error
            if conn.invalidated or not _is_of_one(refusal):
                raise  # the savepoint may be gone with the transaction
            savepoint.rollback()
            if len(decided) == 1:
                return [TickResult(decided[0].name, None, error=refusal)]
        else:
            savepoint.commit()
            return done
        half = len(decided) // 2
        return [*self._write(conn, decided[:half]), *self._write(conn, decided[half:])]

    def _write_all(self, conn: Connection, decided: Sequence[_Decided]) -> list[TickResult]:
        made = make(conn, self.enqueue, [(each.name, each.ticks) for each in decided])
        done = [
            TickResult(each.name, with_last(each.after, jobs), jobs)
            for each, jobs in zip(decided, made, strict=True)
        ]
        moved = [
            {"of": name} | {f"to_{each}": getattr(state, each) for each in _MOVES}
            for (name, state, *_), (_, before, *_) in zip(done, decided, strict=True)
            if state is not before
        ]
        if moved:
            conn.execute(_MOVE, moved)
        return done


def _decide(row: Any, dead: Any) -> _Decided:
    facts = facts_in(row, dead)
    after, ticks = schedule_rules.tick(facts)
    if facts.state is None or after is None:
        raise AssertionError(f"a tick removed schedule {row.name!r}")
    return _Decided(row.name, facts.state, after, ticks)


def _is_of_one(error: Exception) -> bool:
    """Return whether an error may concern only one of many schedules.

    Errors about the database as a whole, or about a lock, do not. A statement that is refused may:
    a trigger of the application fails for the jobs of one task.
    """
    return not isinstance(error, StoreUnavailable | StoreGone | SchemaError)
