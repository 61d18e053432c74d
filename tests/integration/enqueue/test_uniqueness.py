"""Unique keys in the caller's transaction, whatever connection that is."""

from __future__ import annotations

import asyncio

import pytest
from sqlalchemy import create_engine, text

from mutirao.errors import DuplicateJob
from mutirao.model.jobs.job import NewJob
from mutirao.model.keys.uniqueness import PARKED, OnConflict, Placed, Unique
from mutirao.sql.enqueue.intake import SqlIntake
from mutirao.sql.registry import dialect_named
from tests.integration.enqueue.holders import (
    OF_EACH_DRIVER,
    AlchemyAsyncpg,
    Holder,
    Psycopg,
)
from tests.integration.enqueue.kit import (
    MANY,
    SEVERAL,
    Observer,
    each_driver,
    kinds,
    numbered,
    varied,
)
from tests.support.waiting import until

pytestmark = pytest.mark.usefixtures("small_chunks")


LEVELS = {
    "postgresql": "READ COMMITTED", "mysql": "REPEATABLE READ", "sqlite": "SERIALIZABLE",
}  # fmt: skip
CASES = (("keep", "rollback"), ("rerun", "commit"), ("rerun", "rollback"))
CLAIM = text("UPDATE mutirao_live SET worker = 1, claimed_at = now(), run = 1 WHERE id = :id")
FINISH = text("SELECT mutirao_finish(ARRAY[:id], '{1}', NULL, '{0}', '{0}', NULL, NULL, NULL)")
BLOCKED = text("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'")


def keyed(mode: str = "keep", n: int = 0) -> NewJob:
    """Return a job with a unique key."""
    unique = Unique(on_conflict=OnConflict(mode))
    return NewJob(task="shop.index", args=f'{{"n": {n}}}', key="k", unique=unique)


def live(observer: Observer) -> list[int]:
    """Return the ids of the live jobs."""
    return [row.id for row in observer.jobs() if row.live is not None]


def enqueue_elsewhere(url: str, backend: str, job: NewJob) -> Placed:
    """Enqueue in a transaction of another program."""
    engine = create_engine(url, isolation_level=LEVELS[backend])
    with engine.begin() as connection:
        [id] = SqlIntake(dialect_named(backend).intake).enqueue([job], connection)
    engine.dispose()
    assert isinstance(id, Placed)
    return id


def somebody_waits(observer: Observer) -> bool:
    """Tell whether a session of the server waits for a lock."""
    with observer._engine.connect() as connection:
        return bool(connection.scalar(BLOCKED))


@each_driver
async def test_one_after_another(holder: Holder, observer: Observer) -> None:
    """Each of them sees what those before it did, in one transaction or several.

    What replaced a job before a rollback to a savepoint never was.
    """
    [first] = await holder.enqueue([keyed("rerun", 1)])
    [found] = await holder.enqueue([keyed("keep", 2)])
    with pytest.raises(DuplicateJob):
        await holder.enqueue([keyed("error", 3)])
    [second] = await holder.enqueue([keyed("rerun", 4)])
    [third] = await holder.enqueue([keyed("replace", 5)])
    back = await holder.savepoint()
    [undone] = await holder.enqueue([keyed("replace", 6)])
    await back()
    await holder.commit()
    hows = [id.how for id in (first, found, second, third, undone) if isinstance(id, Placed)]
    assert hows == ["inserted", "found", *["replaced"] * 3]
    assert found == first
    assert live(observer) == [third]


@each_driver
async def test_among_others(holder: Holder, observer: Observer) -> None:
    """In one call with jobs without keys; their ids are in order, and all or none are written."""
    kept = list[int]()
    for size in (MANY, 1, SEVERAL):
        _, *ids = await holder.enqueue([keyed("replace"), *numbered(size), keyed("replace")])
        with pytest.raises(DuplicateJob):
            await holder.enqueue([*numbered(size), keyed("error")])
        await holder.commit()
        await holder.begin()
        kept = [*kept[:-1], *ids]
        assert live(observer) == sorted(kept)


@varied(OF_EACH_DRIVER, "case", ("keep", "commit"), *CASES)
async def test_two_transactions(holder: Holder, observer: Observer, case: tuple[str, str]) -> None:
    """The second waits for the first: it stands after a commit, and never was after a rollback."""
    mode, ends = case
    [first] = await holder.enqueue([keyed(mode, 1)])
    other = asyncio.create_task(
        asyncio.to_thread(enqueue_elsewhere, observer.url, holder.backend, keyed(mode, 2))
    )
    if holder.backend == "postgresql":
        await until(lambda: somebody_waits(observer))
    await getattr(holder, ends)()
    second = await other
    if ends == "rollback":
        assert second.how == "inserted"
    else:
        assert second.how == ("found" if mode == "keep" else "replaced")
        assert (second == first) == (second.how == "found")
    assert live(observer) == [second]


@pytest.mark.parametrize("ended", [False, True])
@kinds(Psycopg, AlchemyAsyncpg)
async def test_nobody_waits_for_the_caller(holder: Holder, observer: Observer, ended: bool) -> None:
    """A job is claimed, and settled, while a transaction lasts that wants to replace it.

    The new one comes after it: once it has ended, or at the commit, if it has by then.
    """
    first = enqueue_elsewhere(observer.url, "postgresql", keyed("replace", 1))
    [second] = await holder.enqueue([keyed("replace", 2)])
    with observer._engine.connect() as worker:
        worker.execute(text("SET lock_timeout = '20s'"))
        worker.execute(CLAIM, {"id": int(first)})
        if ended:
            worker.execute(FINISH, {"id": int(first)})
    await holder.commit()
    due = {row.id: row.due.year for row in observer.jobs() if row.live is not None}
    assert set(due) == ({second} if ended else {first, second})
    assert (due[second] == PARKED.year) is not ended
