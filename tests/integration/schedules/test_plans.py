"""What is due is read and locked by index, however many schedules rest, paused and waiting too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Connection, event, insert, text

from mutirao.model.jobs.job import NewJob
from mutirao.model.schedules.schedule import ScheduleOrigin, ScheduleState
from mutirao.sql.dialects.base import Dialect
from mutirao.sql.schema.tables import schedule
from mutirao.sql.statements import schedules
from mutirao.sql.statements.ticking import Batch
from mutirao.sql.store.jobs import SqlStore
from mutirao_conformance.kit import FAR_AHEAD, NOW
from mutirao_conformance.schedules import scheduled

MANY = 3_000


def rows(name: str, **stands: Any) -> list[dict[str, Any]]:
    """Return many rows of schedules that stand so."""
    asked = scheduled(name, job=NewJob(task="t"))
    usual = {"schedule": asked, "origin": ScheduleOrigin.CALL, "created_at": NOW, "changed_at": NOW}
    row = schedules.to_row(ScheduleState(**{**usual, "next_at": FAR_AHEAD, **stands}))
    return [row | {"name": f"{name} {n}"} for n in range(MANY)]


def fill(conn: Connection) -> None:
    """Make schedules that have nothing to do, in every way."""
    conn.execute(insert(schedule), rows("ahead"))
    conn.execute(insert(schedule), rows("paused", paused=True, next_at=NOW))
    conn.execute(insert(schedule), rows("finished", next_at=None))


def plans(url: str, act: Callable[[Connection, Dialect], object]) -> tuple[int, str]:
    """Act among many schedules that have nothing to do; return how many statements that took.

    And their plans.
    """
    store = SqlStore(url)
    said: list[tuple[str, Any]] = []

    def note(conn: Any, cursor: Any, statement: str, parameters: Any, *rest: Any) -> None:
        said.append((statement, parameters))

    with store.engines.sync().begin() as conn:
        fill(conn)
    with store.engines.sync().connect() as conn:
        conn.execute(text("ANALYZE"))
        event.listen(conn, "before_cursor_execute", note)
        act(conn, store._sender.dialect)
        event.remove(conn, "before_cursor_execute", note)
        explain = "EXPLAIN QUERY PLAN" if store.engines.in_thread else "EXPLAIN"
        plan = [
            str(row[-1])
            for statement, parameters in said
            for row in conn.exec_driver_sql(f"{explain} {statement}", parameters)
        ]
    store.engines.sync().dispose()
    return len(said), "\n".join(plan)


def look(conn: Connection, dialect: Dialect) -> None:
    """Ask what is due, as each worker does."""
    assert schedules.agenda(conn, dialect, (), NOW).due == ()


def tick(conn: Connection, dialect: Dialect) -> None:
    """Lock what is due, as a worker does that found something, though somebody else had it."""
    assert Batch(dialect, lambda *_: [], 200, (), NOW).write(conn) == []


@pytest.mark.parametrize(("act", "statements"), [(look, 1), (tick, 2)])
async def test_by_index(
    url: str, act: Callable[[Connection, Dialect], object], statements: int
) -> None:
    """Neither the table nor the jobs are walked through, and nothing is sorted."""
    said, shown = plans(url, act)
    assert said == statements
    for index in ("mutirao_schedule_next", "mutirao_schedule_awaiting"):
        assert index in shown, shown
    for walk in ("SCAN mutirao_schedule\n", "Seq Scan on mutirao_schedule", "Sort", "TEMP B-TREE"):
        assert walk not in shown, shown
