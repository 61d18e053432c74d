"""The contract of a notifier, on SQLite and on PostgreSQL with each of its drivers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import nullcontext
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import make_url

from mutirao.errors import StoreUnavailable
from mutirao.model.jobs.job import Wake
from mutirao.notifiers.postgresql import PostgresqlNotifier
from mutirao.notifiers.sqlite import SqliteNotifier
from mutirao.ports import Notifier, Store
from mutirao.sql.store.jobs import SqlStore
from mutirao_conformance import NotifierContract
from mutirao_conformance.kit import at, deadline, due, join, put
from mutirao_conformance.notifier import IDLE, listening, until

DRIVERS = ["psycopg", "asyncpg", "psycopg2"]


async def opened(url: str) -> AsyncIterator[Store]:
    """Open a store, and close it at the end."""
    store = SqlStore(url)
    yield store
    await store.close()


class TestSqliteNotifier(NotifierContract):
    """Files on this machine."""

    @pytest.fixture
    async def store(self, migrated_sqlite_url: str) -> AsyncIterator[Store]:
        """A store on a fresh file."""
        async for store in opened(migrated_sqlite_url):
            yield store

    @pytest.fixture
    def notifier(self, migrated_sqlite_url: str) -> Notifier:
        """A notifier of the same file."""
        return SqliteNotifier(migrated_sqlite_url)

    @pytest.fixture
    def unreachable(self, tmp_path: Path) -> Notifier:
        """A notifier of a file in a directory that is not there."""
        return SqliteNotifier(f"sqlite:///{tmp_path / 'nowhere' / 'mutirao.db'}")


class TestSqliteNotifierThatLooksOften(TestSqliteNotifier):
    """Files of a system that does not tell of writes, or has no watches left."""

    @pytest.fixture(autouse=True)
    def _unwatched(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("mutirao.notifiers.sqlite.watching", lambda _: nullcontext())


class TestPostgresqlNotifier(NotifierContract):
    """A server; and what only LISTEN and NOTIFY promise."""

    @pytest.fixture
    async def store(self, migrated_postgresql_url: str) -> AsyncIterator[Store]:
        """A store on a fresh database."""
        async for store in opened(migrated_postgresql_url):
            yield store

    @pytest.fixture(params=DRIVERS)
    def driver(self, request: pytest.FixtureRequest) -> str:
        """The driver that listens."""
        return f"postgresql+{request.param}"

    @pytest.fixture
    def notifier(self, migrated_postgresql_url: str, driver: str) -> Notifier:
        """A notifier of the same database."""
        return PostgresqlNotifier(make_url(migrated_postgresql_url).set(drivername=driver))

    @pytest.fixture
    def unreachable(self, migrated_postgresql_url: str, driver: str) -> Notifier:
        """A notifier that knocks where nobody listens."""
        return PostgresqlNotifier(make_url(migrated_postgresql_url).set(drivername=driver, port=1))

    async def test_it_raises_when_its_connection_breaks(
        self, notifier: Notifier, migrated_postgresql_url: str
    ) -> None:
        """The caller learns of it at once, and may listen again."""
        async with listening(notifier) as wakes:
            url = make_url(migrated_postgresql_url).set(drivername="postgresql")
            with psycopg.connect(url.render_as_string(False), autocommit=True) as connection:
                connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )
            async with deadline():
                with pytest.raises(StoreUnavailable):
                    await anext(wakes)
        async with listening(notifier):
            pass

    async def test_the_lane_is_named(self, store: Store, notifier: Notifier) -> None:
        """One job: its lane and its moment, to the microsecond."""
        await join(store, expiry=IDLE, now=None)
        async with listening(notifier) as wakes:
            await put(store, due(queue="a b é", priority=-7, run_at=at(0.000_001)))
            assert await until(wakes, "a b é") == Wake("a b é", -7, at(0.000_001))

    async def test_one_notification_a_call(self, store: Store, notifier: Notifier) -> None:
        """However many jobs are written, in however many lanes."""
        await join(store, expiry=IDLE, now=None)
        async with listening(notifier) as wakes:
            await put(store, *(due(queue=f"q-{n % 40}") for n in range(400)))
            await put(store, due(queue="the end"))
            async with deadline():
                assert (await anext(wakes)).queue != "the end"
                assert (await anext(wakes)).queue == "the end"

    @pytest.mark.parametrize("why", ["nobody", "busy", "gone"])
    async def test_nobody_is_told_when_nobody_listens(
        self, store: Store, notifier: Notifier, why: str
    ) -> None:
        """A commit is not made to wait for NOTIFY without a worker that is alive and idle."""
        if why != "nobody":
            worker = await join(store, expiry=IDLE, now=None if why == "busy" else at(0))
            await store.listen(worker, why != "busy")
        async with listening(notifier) as wakes:
            await put(store, due(queue="unheard"), due(queue="unheard"))
            await put(store, due(queue="unheard"))
            await join(store, expiry=IDLE, now=None)
            await put(store, due(queue="heard"))
            async with deadline():
                assert (await anext(wakes)).queue == "heard"

    async def test_a_rolled_back_job_wakes_nobody(
        self, store: Store, notifier: Notifier, migrated_postgresql_url: str
    ) -> None:
        """Notifications travel with the commit."""
        await join(store, expiry=IDLE, now=None)
        url = make_url(migrated_postgresql_url).set(drivername="postgresql")
        async with (
            listening(notifier) as wakes,
            await psycopg.AsyncConnection.connect(url.render_as_string(False)) as connection,
        ):
            await store.aenqueue([due(queue="never")], connection)
            await connection.rollback()
            await store.aenqueue([due(queue="now")], connection)
            await connection.commit()
            async with deadline():
                assert (await anext(wakes)).queue == "now"
