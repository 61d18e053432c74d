"""The agenda is read by index, however many schedules there are, paused and waiting ones too."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, event, insert, text

from mutirao.model.job import NewJob
from mutirao.model.schedule import ScheduleOrigin, ScheduleState
from mutirao.sql.schema.tables import schedule
from mutirao.sql.statements import schedules
from mutirao.sql.store import SqlStore
from mutirao.testing.conformance.kit import FAR_AHEAD, NOW
from mutirao.testing.conformance.schedules import scheduled

MANY = 3_000


def rows(name: str, **stands: Any) -> list[dict[str, Any]]:
    """Return many rows of schedules that stand so."""
    asked = scheduled(name, job=NewJob(task="t"))
    usual = {"schedule": asked, "origin": ScheduleOrigin.CALL, "created_at": NOW, "changed_at": NOW}
    row = schedules._to_row(ScheduleState(**{**usual, "next_at": FAR_AHEAD, **stands}))
    return [row | {"name": f"{name} {n}"} for n in range(MANY)]


def fill(conn: Connection) -> None:
    """Make schedules that have nothing to do, in every way."""
    conn.execute(insert(schedule), rows("ahead"))
    conn.execute(insert(schedule), rows("paused", paused=True, next_at=NOW))
    conn.execute(insert(schedule), rows("finished", next_at=None))


async def test_the_agenda(url: str) -> None:
    """Neither the table nor the jobs are walked through, and nothing is sorted."""
    store = SqlStore(url)
    with store.engines.sync().begin() as conn:
        fill(conn)
    said: list[tuple[str, Any]] = []

    def note(conn: Any, cursor: Any, statement: str, parameters: Any, *rest: Any) -> None:
        said.append((statement, parameters))

    event.listen(store.engines.sync(), "before_cursor_execute", note)
    with store.engines.sync().connect() as conn:
        conn.execute(text("ANALYZE"))
        found = schedules.agenda(conn, store._dialect, NOW)
        statement, parameters = said[-1]
        explain = "EXPLAIN QUERY PLAN" if store.engines.in_thread else "EXPLAIN"
        plan = [str(row[-1]) for row in conn.exec_driver_sql(f"{explain} {statement}", parameters)]
    await store.close()
    assert found.due == ()
    shown = "\n".join(plan)
    for index in ("mutirao_schedule_next", "mutirao_schedule_awaiting"):
        assert index in shown, shown
    for walk in ("SCAN mutirao_schedule\n", "Seq Scan on mutirao_schedule", "Sort", "TEMP B-TREE"):
        assert walk not in shown, shown
