"""What a MemoryStore does otherwise than other stores: connections, and transactions of jobs."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext
from typing import Any

import pytest

from mutirao.errors import ConfigurationError, StaleRun, UnsupportedConnection, WrongState
from mutirao.model.graphs.graph import Graph
from mutirao.model.graphs.graph_plan import plan
from mutirao.model.jobs.job import NewJob, Transaction
from mutirao.model.jobs.records import JobFilter
from mutirao.model.keys.uniqueness import Unique
from mutirao.testing import MemoryStore
from mutirao.testing.memory import _template
from mutirao_conformance.kit import due, ids_of, job_of, join, put, take_one
from mutirao_conformance.transactions import Failed, Watched


async def test_each_is_empty_at_first() -> None:
    """Ids count from 1, in every store anew; its clones are the store itself."""
    for _ in range(2):
        store = MemoryStore()
        assert await put(store, due(), due()) == [1, 2]
        assert await join(store) == 1
        await store.clone().close()
        assert ids_of(await store.jobs(JobFilter())) == [2, 1]


def test_threads_share_a_store() -> None:
    """However many enqueue at the same time."""
    store = MemoryStore()
    threads = [threading.Thread(target=_enqueue_ten, args=(store,)) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert store.enqueue([due()]) == [41]


def _enqueue_ten(store: MemoryStore) -> None:
    for _ in range(10):
        store.enqueue([due()])


FORKS = """
import os
from mutirao import NewJob
from mutirao.testing import MemoryStore

store = MemoryStore()
assert store.enqueue([NewJob(task="t")]) == [1]
child = os.fork()
assert store.enqueue([NewJob(task="t")]) == [2]
if child:
    assert os.waitpid(child, 0)[1] == 0
"""


def test_forks_have_copies() -> None:
    """Of what was there; then each has its own."""
    subprocess.run([sys.executable, "-c", FORKS], check=True, timeout=250)


def test_an_old_sqlite(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its threads would each have an empty database; the error says what to do."""
    _template.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(sqlite3, "sqlite_version_info", (3, 35, 5))
        with pytest.raises(ConfigurationError, match=r"needs 3\.36 or newer"):
            MemoryStore()
    assert MemoryStore().enqueue([due()]) == [1]


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
    with pytest.raises(
        WrongState,
        match=r"SQLite file, or say what its session is to be: session_factory=… of inline",
    ):
        await begun(MemoryStore())


async def begun(store: MemoryStore) -> Transaction[Any, Any]:
    """Return a transaction of a job that runs."""
    await put(store, due())
    claim = await take_one(store, await join(store))
    return store.transaction(job_of(claim), Watched(), gives="session")


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
        transaction = await begun(store)
        if ending == "stale":
            await store.release([(1, 1)])
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
    with pytest.raises(WrongState, match=r"`async with`; wrap it in contextlib\.nullcontext"):
        async with await begun(MemoryStore(session_factory=diary.plain)):
            pass
    with (
        pytest.raises(WrongState, match="entered with `with`"),
        await begun(MemoryStore(session_factory=diary.awaited)),
    ):
        pass


async def test_a_session_is_a_connection_while_it_is_open() -> None:
    """Afterwards it is refused like any other."""
    session = object()
    store = MemoryStore(session_factory=lambda: nullcontext(session))
    with await begun(store):
        [child] = store.enqueue([due("child")], session)
    assert ids_of(await store.jobs(JobFilter(task="child"))) == [child]
    with pytest.raises(UnsupportedConnection):
        store.enqueue([due()], session)


async def test_jobs_of_a_block_that_fails() -> None:
    """They are gone, whatever they were; others stay, and so does one that was found."""
    session = object()
    store = MemoryStore(session_factory=lambda: nullcontext(session))
    [found] = store.enqueue([keyed("a")])
    others = list[int]()

    async def fail() -> None:
        with await begun(store):
            store.enqueue([due(), due()], session)
            assert store.enqueue([keyed("a"), keyed("b")], session)[0] == found
            others.extend(store.enqueue([due("other")]))
            await store.aenqueue_graph(_two_steps(), session)
            raise Failed

    with pytest.raises(Failed):
        await fail()
    assert ids_of(await store.jobs(JobFilter())) == [*others, found + 1, found]
    assert await store.graphs() == []
    [again] = store.enqueue([keyed("b")])
    assert again > others[0]


def keyed(key: str) -> NewJob:
    """Return a job that is to be the only one of its key."""
    return NewJob(task="t", key=key, unique=Unique())


def _two_steps() -> Any:
    graph = Graph()
    first = graph.add(NewJob(task="t"))
    graph.add(NewJob(task="t"), [first])
    return plan(graph)


def _fail_if(wanted: bool) -> None:
    if wanted:
        raise Failed
