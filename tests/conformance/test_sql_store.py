"""The contract of a store, on SQL: whole on every database, its drivers' part with every driver.

On PostgreSQL the whole of it is shown in a schema, where a statement that named a table or a
function without it would fail; in `public`, where the same statements name none, the drivers' part.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator

import pytest
import pytest_asyncio
from psycopg import Connection
from sqlalchemy import make_url

from mutirao.errors import ConfigurationError, SchemaMissing
from mutirao.ports import Store
from mutirao.sql import migrations
from mutirao.sql.store.jobs import SqlStore
from mutirao_conformance import DriverContract, StoreContract
from mutirao_conformance.kit import (
    NOW,
    at,
    deadline,
    due,
    ids_of,
    job_of,
    join,
    lane,
    put,
    take,
    take_one,
)
from mutirao_conformance.transactions import Watched
from tests.support.emptying import empty_through
from tests.support.postgresql import PostgresServer

Open = Callable[[str], SqlStore]


@pytest.fixture
async def open_store(emptied_postgresql_url: str) -> AsyncIterator[Open]:
    """Open stores on PostgreSQL through a driver; they are closed at the end."""
    opened: list[SqlStore] = []

    def open_with(driver: str) -> SqlStore:
        url = make_url(emptied_postgresql_url).set(drivername=f"postgresql+{driver}")
        opened.append(SqlStore(url))
        return opened[-1]

    yield open_with
    for store in opened:
        await store.close()


class TestSqlite(StoreContract):
    """A file, through the standard library's driver."""

    @pytest.fixture
    async def store(self, migrated_sqlite_url: str) -> AsyncIterator[Store]:
        """A store on a fresh file."""
        store = SqlStore(migrated_sqlite_url)
        yield store
        await store.close()


@pytest.fixture(scope="module")
def two_sets(postgres: PostgresServer, shared_database: str) -> str:
    """A database with a set in the schema `jobs`, beside the one in `public`."""
    migrations.upgrade(postgres.url(shared_database), "jobs")
    return shared_database


@pytest.fixture(scope="module")
def emptier(postgres: PostgresServer, two_sets: str) -> Iterator[Connection]:
    """A connection that empties the tables between tests: to open one takes longer than that."""
    with postgres.connect(two_sets) as connection:
        yield connection


@pytest_asyncio.fixture(scope="class", loop_scope="class")
async def store_of_the_class(postgres: PostgresServer, two_sets: str) -> AsyncIterator[SqlStore]:
    """A store on the set in `jobs`, whose connections have no path."""
    nowhere = {"options": "-csearch_path="}
    url = make_url(postgres.url(two_sets)).update_query_dict(nowhere)
    store = SqlStore(url, schema="jobs")
    yield store
    await store.close()


class TestPsycopg(StoreContract):
    """PostgreSQL through its default driver: a set in a schema of its own, beside another one.

    No path of a connection leads to either. The tests share one event loop, and so the connections
    of it: to open them takes longer than most tests.
    """

    shares_loop = True

    @pytest.fixture
    def store(self, store_of_the_class: SqlStore, emptier: Connection) -> Store:
        """The same store, on empty tables."""
        empty_through(emptier, "jobs")
        return store_of_the_class

    @pytest_asyncio.fixture(loop_scope="class")
    async def other_store(self, store: Store) -> AsyncIterator[Store]:
        """A second handle on the same data, whose connections end with the test."""
        clone = store.clone()
        yield clone
        await clone.close()


@pytest.mark.repeats(decided="tests/integration/worker")  # as nearly all other tests are there
class TestPublic(DriverContract):
    """The same in the schema `public`, where nothing is named."""

    @pytest.fixture
    def store(self, open_store: Open) -> Store:
        """A store on an empty database."""
        return open_store("psycopg")


class TestRowLocks:
    """Rows that others have locked keep nobody waiting."""

    @pytest.fixture
    def store(self, open_store: Open) -> Store:
        """A store on an empty database."""
        return open_store("psycopg")

    async def test_a_locked_job_is_passed_over(
        self, store: Store, postgres: PostgresServer, shared_database: str
    ) -> None:
        """Jobs that another claim is taking at this moment are not waited for."""
        ids = await put(store, *(due() for _ in range(5)))
        worker = await join(store)
        with postgres.connect(shared_database) as other, other.transaction():
            other.execute("SELECT FROM mutirao_live WHERE id = ANY(%s) FOR UPDATE", [ids[:3]])
            async with deadline():
                claims = await store.claim(worker, [lane()], 9, now=NOW)
        assert ids_of(claims) == ids[3:]
        assert ids_of(await store.claim(worker, [lane()], 9, now=NOW)) == ids[:3]

    async def test_a_rescue_waits_for_nobody(
        self, store: Store, postgres: PostgresServer, shared_database: str
    ) -> None:
        """A machine paused inside a transaction keeps its locks, and holds no other jobs up.

        What it locked is rescued once its connection is gone: by then its worker has no row.
        """
        ids = await put(store, *(due() for _ in range(5)))
        await take(store, await join(store))
        with postgres.connect(shared_database) as paused, paused.transaction(force_rollback=True):
            paused.execute("DELETE FROM mutirao_live WHERE id = ANY(%s)", [ids[:2]])
            async with deadline():
                assert await store.rescue(now=at(120)) == [(id, 2) for id in ids[2:]]
            assert await store.workers() == []
        assert await store.rescue(now=at(121)) == [(id, 2) for id in ids[:2]]

    async def test_a_rescue_does_not_wait_for_a_heartbeat(
        self, store: Store, postgres: PostgresServer, shared_database: str
    ) -> None:
        """A worker whose row is locked is beating at this moment, or paused in the middle of it."""
        beating, gone = await join(store), await join(store)
        [id] = await put(store, due())
        await take(store, gone)
        with postgres.connect(shared_database) as paused, paused.transaction():
            paused.execute("UPDATE mutirao_worker SET stuck = 0 WHERE id = %s", [beating])
            async with deadline():
                assert await store.rescue(now=at(120)) == [(id, 2)]
        assert ids_of(await store.workers()) == [beating]


@pytest.mark.repeats(decided="tests/conformance/test_sql_store.py")  # by the default driver
class TestAsyncpg(DriverContract):
    """PostgreSQL through a driver that is only asynchronous."""

    faces = ("aenqueue",)
    handlers = ("coroutine",)

    @pytest.fixture
    def store(self, open_store: Open) -> Store:
        """A store on an empty database."""
        return open_store("asyncpg")

    async def test_what_a_plain_caller_is_told(self, store: Store) -> None:
        """There is no synchronous form; the error says what to use instead, nothing is written."""
        with pytest.raises(ConfigurationError, match="use the asynchronous call"):
            store.enqueue([due()])
        await put(store, due())
        claim = await take_one(store, await join(store))
        with (
            pytest.raises(ConfigurationError, match=r"postgresql\+psycopg://"),
            store.transaction(job_of(claim), Watched(), gives="session"),
        ):
            pass
        assert len(await store.lanes(None)) == 0


@pytest.mark.repeats(decided="tests/conformance/test_sql_store.py")  # by the default driver
class TestPsycopg2(DriverContract):
    """PostgreSQL through a driver that is only synchronous; threads run it for the worker."""

    handlers = ("function",)

    @pytest.fixture
    def store(self, open_store: Open) -> Store:
        """A store on an empty database."""
        return open_store("psycopg2")

    async def test_what_a_coroutine_is_told(self, store: Store) -> None:
        """There are no asynchronous sessions; the error says what to use instead."""
        await put(store, due())
        claim = await take_one(store, await join(store))
        with pytest.raises(ConfigurationError, match=r"handler, or a postgresql\+psycopg://"):
            async with store.transaction(job_of(claim), Watched(), gives="session"):
                pass


async def test_no_tables(database_url: str) -> None:
    """A database that was never migrated is named as such, with the command to run."""
    store = SqlStore(database_url)
    with pytest.raises(SchemaMissing, match="mutirao migrate"):
        await store.check()
    await store.close()
