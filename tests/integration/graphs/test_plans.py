"""What settling, cancelling and redriving a step does is done by index, however many there are."""

from __future__ import annotations

import asyncio
from typing import Any

from sqlalchemy import event, insert, text
from sqlalchemy.orm import Session

from mutirao.model.graphs.graph import chain, group
from mutirao.model.jobs.job import NewJob, OutcomeKind
from mutirao.model.jobs.records import JobFilter
from mutirao.sql.schema.tables import edge, gate, graph, live, result, step
from mutirao.sql.store.jobs import SqlStore
from mutirao_conformance.graphs import write_graph
from mutirao_conformance.kit import FAR_AHEAD, NOW, ended, join, take

MANY, FIRST = 20_000, 1_000_000  # rows of others, and their first id
TABLES = ("step", "live", "edge", "gate", "graph", "result", "job", "attempt", "waiter")


def fill(store: SqlStore) -> None:
    """Have many graphs of others, none of which has come far."""
    ids = range(FIRST, FIRST + MANY)
    with store.engines.sync().begin() as conn:
        conn.execute(
            insert(graph),
            [{"id": id, "unfinished": 1, "undoing": False, "created_at": NOW} for id in ids],
        )
        conn.execute(
            insert(step),
            [
                {"id": id, "job": id, "graph": id, "depth": 1, "stage": "s", "on_dead": "stop",
                 "gate": id}
                for id in ids
            ],
        )  # fmt: skip
        conn.execute(insert(gate), [{"id": id, "unfinished": 1} for id in ids])
        conn.execute(insert(edge), [{"step": id, "gate": id} for id in ids])
        conn.execute(insert(result), [{"job": id, "value": "1"} for id in ids])
        conn.execute(
            insert(live),
            [
                {"id": id, "queue": "other", "priority": 0, "run_at": FAR_AHEAD, "attempt": 0,
                 "run": 0, "cancel": False}
                for id in ids
            ],
        )  # fmt: skip
    with Session(store.engines.sync()) as session:
        session.execute(text("ANALYZE"))
        session.commit()


def walks(store: SqlStore, said: list[tuple[str, Any]]) -> list[str]:
    """Return the statements that walk through a table, with how they do."""
    explain = "EXPLAIN QUERY PLAN" if store.engines.in_thread else "EXPLAIN"
    found = []
    with store.engines.sync().connect() as conn:
        for statement, parameters in said:
            if statement.startswith(("SELECT", "UPDATE", "DELETE", "INSERT")):
                rows = conn.exec_driver_sql(f"{explain} {statement}", parameters).all()
                plan = "\n".join(str(row[-1]) for row in rows) + "\n"
                walked = [
                    name
                    for name in TABLES
                    if f"Seq Scan on mutirao_{name} " in plan or f"SCAN mutirao_{name}\n" in plan
                ]
                found += [f"{walked}\n{statement}\n{plan}"] if walked else []
    return found


async def test_nothing_is_walked_through(url: str) -> None:
    """Neither the steps nor the live jobs of others."""
    store = SqlStore(url)
    fill(store)
    said: list[tuple[str, Any]] = []

    def note(conn: Any, cursor: Any, statement: str, parameters: Any, *rest: Any) -> None:
        said.append((statement, parameters[0] if rest[1] else parameters))

    engine = store.engines.sync()

    def settle(claims: Any, kind: OutcomeKind) -> None:
        with engine.begin() as conn:
            store._settling.finish(conn, [ended(claim, kind) for claim in claims], NOW)

    job = NewJob(task="t", queue="mine", run_at=NOW)
    first, *_ = await write_graph(store, chain(group(job, job), job))
    worker = await join(store)
    one, two = await take(store, worker, queues=["mine"])
    event.listen(engine, "before_cursor_execute", note)
    await asyncio.to_thread(settle, [one], OutcomeKind.SUCCEEDED)
    await asyncio.to_thread(settle, [two], OutcomeKind.DEAD)
    await store.redrive(JobFilter(ids=(two.id,)))
    await store.endings([one.id])
    await store.graph(first)
    await store.cancel(JobFilter(graph=first))
    event.remove(engine, "before_cursor_execute", note)
    assert len(said) > 10
    assert await asyncio.to_thread(walks, store, said) == []
    await store.close()
