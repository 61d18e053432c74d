"""Supersede rules in the caller's transaction: decided there, done at its commit."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime

import pytest
from sqlalchemy import create_engine, text

from mutirao.model.jobs.job import NewJob
from mutirao.model.keys.supersede import Supersede
from mutirao.model.keys.uniqueness import PARKED, Placed, Unique
from mutirao.sql.enqueue.intake import SqlIntake
from mutirao.sql.registry import dialect_named
from tests.integration.enqueue.holders import AlchemyAsyncpg, Holder, Psycopg, Sqlite3
from tests.integration.enqueue.kit import MANY, SEVERAL, Observer, kinds, numbered
from tests.integration.enqueue.test_uniqueness import BLOCKED, CLAIM, FINISH, live
from tests.support.waiting import until

pytestmark = pytest.mark.usefixtures("small_chunks")
# Keyed jobs go the same way with and without a rule: each driver is tried in test_uniqueness.py.
few = kinds(Psycopg, AlchemyAsyncpg, Sqlite3)

LATE = datetime(2090, 1, 1, tzinfo=UTC)
LET_GO = text("""
WITH gone AS (DELETE FROM mutirao_supersede_wait WHERE after = :id RETURNING job)
UPDATE mutirao_live SET run_at = now() WHERE id IN (SELECT job FROM gone)
""")
CANCEL = text("DELETE FROM mutirao_live WHERE id = :id")


def activity(kind: str, n: int = 0, run_at: datetime | None = None) -> NewJob:
    """Return a job of a key with the rule of ActivityStreams."""
    args, unique = json.dumps({"type": kind, "n": n}), Unique(supersede=Supersede.activities())
    return NewJob(task="shop.tell", args=args, key="k", unique=unique, run_at=run_at)


def enqueue_elsewhere(url: str, backend: str, *jobs: NewJob) -> list[Placed]:
    """Enqueue in a transaction of another program."""
    engine = create_engine(url)
    with engine.begin() as connection:
        ids = SqlIntake(dialect_named(backend).intake).enqueue(jobs, connection)
    engine.dispose()
    return [id for id in ids if isinstance(id, Placed)]


def left(observer: Observer) -> list[tuple[str, int, bool]]:
    """Return the live jobs: kind, number, and whether it waits for another."""
    return [
        (row.args["type"], row.args["n"], row.due.year == PARKED.year)
        for row in observer.jobs()
        if row.live is not None
    ]


async def rows_left(observer: Observer) -> int:
    """Count who waits for whom."""
    with observer._engine.connect() as connection:
        return int(connection.scalar(text("SELECT count(*) FROM mutirao_supersede_wait")) or 0)


@few
async def test_one_after_another(holder: Holder, observer: Observer) -> None:
    """Each of them sees what those before it did, in one transaction or several."""
    said = [("Create", "inserted"), ("Update", "merged"), ("Delete", "superseded"),
            ("Delete", "inserted"), ("Create", "follows"), ("Update", "merged"),
            ("Update", "merged"), ("Like", "follows")]  # fmt: skip
    for n, (kind, how) in enumerate(said):
        [id] = await holder.enqueue([activity(kind, n)])
        assert isinstance(id, Placed)
        assert id.how == how
    await holder.commit()
    assert left(observer) == [("Delete", 3, False), ("Create", 6, True), ("Like", 7, True)]
    assert await rows_left(observer) == 2


@pytest.mark.parametrize("size", [MANY, 1, SEVERAL])
@few
async def test_among_others(holder: Holder, observer: Observer, size: int) -> None:
    """In one call with jobs without keys."""
    jobs = [activity("Create"), *numbered(size), activity("Update", 1), activity("Like", 2)]
    ids = await holder.enqueue(jobs)
    await holder.commit()
    assert live(observer) == sorted(ids[1:])


@few
async def test_a_rollback_to_a_savepoint(holder: Holder, observer: Observer) -> None:
    """What made a job redundant never was."""
    await holder.enqueue([activity("Create", 1)])
    back = await holder.savepoint()
    await holder.enqueue([activity("Delete", 2)])
    await back()
    await holder.enqueue([activity("Update", 3)])
    await holder.commit()
    assert left(observer) == [("Create", 3, False)]


@pytest.mark.parametrize("ends", ["commit", "rollback"])
@few
async def test_two_transactions(holder: Holder, observer: Observer, ends: str) -> None:
    """The second waits for the first, and decides about what that has left."""
    await holder.enqueue([activity("Create", 1)])
    other = asyncio.create_task(
        asyncio.to_thread(enqueue_elsewhere, observer.url, holder.backend, activity("Update", 2))
    )
    if holder.backend == "postgresql":
        await until(lambda: somebody_waits(observer))
    await getattr(holder, ends)()
    [second] = await other
    assert second.how == ("merged" if ends == "commit" else "inserted")
    assert left(observer) == [("Create" if ends == "commit" else "Update", 2, False)]


def somebody_waits(observer: Observer) -> bool:
    """Tell whether a session of the server waits for a lock."""
    with observer._engine.connect() as connection:
        return bool(connection.scalar(BLOCKED))


@pytest.mark.parametrize("ended", [False, True])
@pytest.mark.parametrize(("older", "newer"), [("Create", "Update"), ("Create", "Delete")])
@kinds(Psycopg, AlchemyAsyncpg)
async def test_nobody_waits_for_the_caller(
    holder: Holder, observer: Observer, older: str, newer: str, ended: bool
) -> None:
    """A job is claimed, and settled, while a transaction lasts that makes it redundant.

    Then both are sent, in order: the newer one as it was asked, at its own time.
    """
    [first] = enqueue_elsewhere(observer.url, "postgresql", activity(older, 1))
    [second] = await holder.enqueue([activity(newer, 2, LATE)])
    assert isinstance(second, Placed)
    assert second.how in ("merged", "superseded")
    with observer._engine.connect() as worker:
        worker.execute(text("SET lock_timeout = '20s'"))
        worker.execute(CLAIM, {"id": int(first)})
        worker.execute(text("UPDATE mutirao_live SET attempt = 1 WHERE run = 1"))
        if ended:
            worker.execute(FINISH, {"id": int(first)})
    await holder.commit()
    assert left(observer) == [*([] if ended else [(older, 1, False)]), (newer, 2, not ended)]
    assert await rows_left(observer) == (0 if ended else 1)
    assert {row.id: row.due for row in observer.jobs() if row.live}.get(second) == (
        LATE if ended else PARKED
    )


@pytest.mark.parametrize("taken", [False, True])
@kinds(Psycopg, AlchemyAsyncpg)
async def test_those_before_it_move_on(holder: Holder, observer: Observer, taken: bool) -> None:
    """The one that it replaces waits at first, and has its turn while the transaction lasts."""
    first, second = enqueue_elsewhere(
        observer.url, "postgresql", activity("Like", 1), activity("Update", 2)
    )
    await holder.enqueue([activity("Update", 3)])
    with observer._engine.connect() as worker:
        worker.execute(text("SET lock_timeout = '20s'"))
        worker.execute(CLAIM, {"id": int(first)})
        worker.execute(FINISH, {"id": int(first)})
        worker.execute(LET_GO, {"id": int(first)})
        if taken:
            worker.execute(CLAIM, {"id": int(second)})
    await holder.commit()
    assert left(observer) == [*([("Update", 2, False)] if taken else []), ("Update", 3, taken)]
    assert await rows_left(observer) == taken


@kinds(Psycopg, AlchemyAsyncpg)
async def test_the_one_before_it_is_cancelled(holder: Holder, observer: Observer) -> None:
    """The newer one waits for the one before that, then."""
    _, second = enqueue_elsewhere(
        observer.url, "postgresql", activity("Like", 1), activity("Update", 2)
    )
    await holder.enqueue([activity("Update", 3)])
    with observer._engine.connect() as somebody:
        somebody.execute(CANCEL, {"id": int(second)})
    await holder.commit()
    assert left(observer) == [("Like", 1, False), ("Update", 3, True)]


@kinds(Psycopg, AlchemyAsyncpg)
async def test_a_job_is_due_although_it_is_wanted(holder: Holder, observer: Observer) -> None:
    """A rollback leaves everything as it was, whatever was decided."""
    enqueue_elsewhere(observer.url, "postgresql", activity("Create", 1))
    await holder.enqueue([activity("Delete", 2), activity("Like", 3)])
    await holder.rollback()
    assert left(observer) == [("Create", 1, False)]
    assert await rows_left(observer) == 0
