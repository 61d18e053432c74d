"""The contract of a store, on the one in memory; and what only that one does."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext
from datetime import datetime

import pytest

from mutirao.errors import StaleRun, UnsupportedConnection, WrongState
from mutirao.job import JobState, NewJob
from mutirao.ports import Store
from mutirao.records import JobFilter
from mutirao.testing.conformance import StoreContract
from mutirao.testing.conformance.kit import at, due, ids_of, job_of, join, lane, put, take_one
from mutirao.testing.conformance.transactions import Failed, Watched
from mutirao.testing.memory import MemoryStore


class TestMemoryStore(StoreContract):
    """The whole contract, with sessions that know nothing."""

    @pytest.fixture
    def store(self) -> Store:
        """An empty store."""
        return MemoryStore(session_factory=lambda: nullcontext(object()))


class Hands:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.moment = at(0)

    def __call__(self) -> datetime:
        return self.moment


async def test_time_is_the_tests_to_move() -> None:
    """Everything that asks for the time asks the clock that was given."""
    hands = Hands()
    store = MemoryStore(now=hands)
    [id] = await put(store, NewJob(task="t", delay=60))
    worker = await join(store, expiry=90, now=None)
    assert (await store.job(id)).state == JobState.SCHEDULED
    assert await store.claim(worker, [lane()], 1) == []
    hands.moment = at(60)
    assert (await store.job(id)).state == JobState.READY
    assert ids_of(await store.claim(worker, [lane()], 1)) == [id]
    hands.moment = at(120)
    assert [job for job, _ in await store.rescue()] == [id]


async def test_everything_is_the_same_each_time() -> None:
    """Ids count from 1, in every store anew."""
    for _ in range(2):
        store = MemoryStore(now=Hands())
        assert await put(store, due(), due()) == [1, 2]
        assert await join(store) == 1


@pytest.mark.parametrize("conn", [object(), "a session"])
async def test_any_connection_when_told_so(conn: object) -> None:
    """The tested code may pass its session; the job is there at once."""
    store = MemoryStore(accept_any_connection=True)
    ids = [*store.enqueue([due()], conn), *await store.aenqueue([due()], conn)]
    assert sorted(ids_of(await store.jobs(JobFilter()))) == ids
    with pytest.raises(UnsupportedConnection, match="accept_any_connection=True"):
        MemoryStore().enqueue([due()], conn)


async def test_transactions_need_sessions() -> None:
    """Without a factory the error says what to do instead."""
    store = MemoryStore()
    await put(store, due())
    claim = await take_one(store, await join(store))
    with pytest.raises(WrongState, match="SQLite file, or give MemoryStore\\(session_factory"):
        store.transaction(job_of(claim), Watched(), session=True)


class Diary:
    """Makes sessions, and writes down what became of each."""

    def __init__(self) -> None:
        self.entries: list[str] = []

    @contextmanager
    def plain(self) -> Iterator[str]:
        """A session for handlers that are functions."""
        try:
            yield "session"
        except BaseException as error:
            self.entries.append(f"rolled back: {type(error).__name__}")
            raise
        self.entries.append("committed")

    @asynccontextmanager
    async def awaited(self) -> AsyncIterator[str]:
        """A session for handlers that are coroutines."""
        with self.plain() as session:
            yield session


@pytest.mark.parametrize("ending", ["well", "badly", "stale"])
async def test_the_session_learns_how_it_ended(ending: str) -> None:
    """It is committed before the job is completed, and rolled back when the block or run failed."""
    diary = Diary()
    for factory in (diary.plain, diary.awaited):
        store = MemoryStore(session_factory=factory)
        await put(store, due())
        claim = await take_one(store, await join(store))
        transaction = store.transaction(job_of(claim), Watched(), session=True)
        if ending == "stale":
            await store.release([claim[:2]])
        expected = {"badly": Failed, "stale": StaleRun}.get(ending)
        with pytest.raises(expected) if expected else nullcontext():
            if factory == diary.plain:
                with transaction as session:
                    assert session == "session"
                    _fail_if(ending == "badly")
            else:
                async with transaction as session:
                    assert session == "session"
                    _fail_if(ending == "badly")
    entry = {"badly": "rolled back: Failed", "stale": "rolled back: StaleRun"}.get(ending)
    assert diary.entries == [entry or "committed"] * 2


async def test_a_session_of_the_other_kind() -> None:
    """What cannot be entered that way is refused with a way out, and the job runs on."""
    diary = Diary()
    store = MemoryStore(session_factory=diary.plain)
    await put(store, due())
    claim = await take_one(store, await join(store))
    with pytest.raises(WrongState, match=r"`async with`; wrap it in contextlib\.nullcontext"):
        async with store.transaction(job_of(claim), Watched(), session=True):
            pass
    store = MemoryStore(session_factory=diary.awaited)
    with (
        pytest.raises(WrongState, match="entered with `with`"),
        store.transaction(job_of(claim), Watched(), session=True),
    ):
        pass


async def test_a_session_is_a_connection_while_it_is_open() -> None:
    """Jobs passed to it are kept back until the end; afterwards it is refused like any other."""
    session = object()
    store = MemoryStore(session_factory=lambda: nullcontext(session))
    await put(store, due())
    claim = await take_one(store, await join(store))
    with store.transaction(job_of(claim), Watched(), session=True):
        [child] = store.enqueue([due("child")], session)
        assert await store.jobs(JobFilter(task="child")) == []
    assert ids_of(await store.jobs(JobFilter(task="child"))) == [child]
    with pytest.raises(UnsupportedConnection):
        store.enqueue([due()], session)


def _fail_if(wanted: bool) -> None:
    if wanted:
        raise Failed
