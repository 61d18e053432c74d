"""A job is part of the transaction it was enqueued in, whatever connection that is."""

from __future__ import annotations

import pytest

from mutirao.model.jobs.job import NewJob
from tests.integration.enqueue.holders import (
    AlchemyAsyncpg,
    AlchemyAsyncpgAutocommit,
    Holder,
    Psycopg,
    PsycopgAutocommit,
    Sqlite3,
    Sqlite3Autocommit,
)
from tests.integration.enqueue.kit import (
    MANY,
    SEVERAL,
    Interrupted,
    Observer,
    autocommitting,
    kinds,
    numbered,
    transactional,
)
from tests.integration.enqueue.settings import in_transaction, settings

pytestmark = pytest.mark.usefixtures("small_chunks")
few = kinds(Psycopg, AlchemyAsyncpg, Sqlite3)
few_autocommitting = kinds(PsycopgAutocommit, AlchemyAsyncpgAutocommit, Sqlite3Autocommit)


@transactional
async def test_a_rollback_and_a_commit(holder: Holder, observer: Observer) -> None:
    """The one leaves nothing, neither jobs nor orders; after the other everybody sees all.

    In the first transaction no setting changes, in any size, and it stays open when a call fails.
    In the second, nobody sees jobs before the commit. What was undone inside stays away: jobs of a
    savepoint, and of a call whose iterable fails: what that raises reaches the caller, whose
    transaction is whole and goes on. Ids are in the order of the jobs.
    """
    driver = await holder.beneath()
    await holder.execute("INSERT INTO shop_order (id) VALUES (1)")
    before = settings(driver)
    for size in (1, SEVERAL, MANY):
        await holder.enqueue(numbered(size))
        assert (settings(driver), in_transaction(driver)) == (before, True)
    with pytest.raises(Interrupted):
        await holder.enqueue(numbered(MANY, MANY - 1))
    assert (settings(driver), in_transaction(driver)) == (before, True)
    await holder.rollback()
    assert (observer.ids(), observer.orders()) == ([], [])

    await holder.begin()
    await holder.execute("INSERT INTO shop_order (id) VALUES (2)")
    ids = await holder.enqueue(numbered(MANY))
    back = await holder.savepoint()
    await holder.enqueue(numbered(MANY))
    await back()
    with pytest.raises(Interrupted):
        await holder.enqueue(numbered(MANY, MANY - 1))
    last = await holder.enqueue(numbered(1))
    assert (observer.ids(), observer.orders()) == ([], [])
    await holder.commit()
    assert observer.ids() == [*ids, *last]
    assert observer.places() == {id: n for n, id in enumerate(ids)} | dict.fromkeys(last, 0)
    assert observer.orders() == [2]


@pytest.mark.parametrize("size", [1, SEVERAL])
@few
async def test_fewer_jobs(holder: Holder, observer: Observer, size: int) -> None:
    """What is written in another way, by its number, is in the transaction too."""
    await holder.enqueue(numbered(size))
    await holder.rollback()
    kept = await holder.enqueue(numbered(size))
    back = await holder.savepoint()
    await holder.enqueue(numbered(size))
    await back()
    with pytest.raises(Interrupted):
        await holder.enqueue(numbered(size, size - 1))
    assert observer.ids() == []
    await holder.commit()
    assert observer.places() == {id: n for n, id in enumerate(kept)}


@pytest.mark.parametrize("failing_at", [0, SEVERAL])
@few
async def test_an_iterable_that_fails_early(
    holder: Holder, observer: Observer, failing_at: int
) -> None:
    """Nothing has been written by then, and the transaction goes on."""
    with pytest.raises(Interrupted):
        await holder.enqueue(numbered(MANY, failing_at))
    kept = await holder.enqueue(numbered(1))
    await holder.commit()
    assert observer.ids() == kept


@pytest.mark.parametrize("size", [1, SEVERAL])
@few_autocommitting
async def test_fewer_jobs_in_autocommit(holder: Holder, observer: Observer, size: int) -> None:
    """They are written when the call returns, all or none."""
    kept = await holder.enqueue(numbered(size))
    for failing_at in (0, size - 1):
        with pytest.raises(Interrupted):
            await holder.enqueue(numbered(MANY, failing_at))
    assert observer.places() == {id: n for n, id in enumerate(kept)}


@few
async def test_one_after_another(holder: Holder, observer: Observer) -> None:
    """Calls of all sizes share the caller's transaction; ids only grow."""
    ids: list[int] = []
    for size in (MANY, 1, SEVERAL, MANY, 1):
        ids += await holder.enqueue(numbered(size))
    assert observer.ids() == []
    await holder.commit()
    assert observer.ids() == ids


@autocommitting
async def test_autocommit(holder: Holder, observer: Observer) -> None:
    """Outside any transaction jobs are written when the call returns; one that fails writes none.

    The connection is in autocommit as before, without a transaction, and no setting has changed.
    """
    driver, ids = await holder.beneath(), list[int]()
    before = settings(driver)
    for size in (MANY, 1, SEVERAL):
        ids += (new := await holder.enqueue(numbered(size)))
        places = observer.places()
        assert [*places] == ids
        assert [places[id] for id in new] == list(range(size))
        assert (settings(driver), in_transaction(driver)) == (before, False)
        with pytest.raises(Interrupted):
            await holder.enqueue(numbered(MANY, MANY - 1))
        assert observer.ids() == ids
        assert (settings(driver), in_transaction(driver)) == (before, False)


@few
async def test_nothing_to_enqueue(holder: Holder, observer: Observer) -> None:
    """An empty iterable writes nothing."""
    assert await holder.enqueue(iter(())) == []
    assert observer.ids() == []


@pytest.mark.parametrize("before", [MANY, 0, 1])
@few_autocommitting
async def test_all_or_none_when_a_job_is_refused(
    holder: Holder, observer: Observer, before: int
) -> None:
    """A job that the database refuses takes its companions with it."""
    with pytest.raises(Exception, match=r"(?i)json|constraint"):
        await holder.enqueue([*numbered(before), NewJob(task="t", args="[]")])
    assert observer.ids() == []
    assert len(await holder.enqueue(numbered(MANY))) == MANY


@few
async def test_a_refused_job_among_many_leaves_the_transaction_whole(
    holder: Holder, observer: Observer
) -> None:
    """Many jobs are written behind a savepoint of their own."""
    kept = await holder.enqueue(numbered(1))
    with pytest.raises(Exception, match=r"(?i)json|constraint"):
        await holder.enqueue([*numbered(MANY), NewJob(task="t", args="[]")])
    await holder.commit()
    assert observer.ids() == kept
