"""The contract of a notifier, by a hub that is told of jobs, for each kind of database."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from mutirao import Mutirao, NewJob
from mutirao.hub.address import parse_address
from mutirao.notifiers.hub import HubNotifier
from mutirao.ports import Notifier, Store
from mutirao.sql import migrations
from mutirao.sql.store.hub import AnnouncingStore
from mutirao.sql.store.jobs import SqlStore
from mutirao_conformance import NotifierContract
from tests.integration.worker.kit import ended, never_polling
from tests.support.hubs import hub
from tests.support.mariadb import MariadbServer, empty
from tests.support.waiting import soon


@pytest.fixture(scope="module")
def server() -> Iterator[MariadbServer]:
    """A server of the module's own."""
    with MariadbServer() as server:
        yield server


@pytest.fixture(scope="module")
def database(server: MariadbServer) -> str:
    """A database with tables."""
    name = server.create_database()
    migrations.upgrade(server.url(name))
    return name


class HubContract(NotifierContract):
    """A hub that only the store announces to. A database gives the fixture `announced_url`."""

    @pytest.fixture
    async def place(self) -> AsyncIterator[str]:
        """The URL of a hub."""
        async with hub() as place:
            yield place

    @pytest.fixture
    async def store(self, announced_url: str, place: str) -> AsyncIterator[Store]:
        """A store that tells the hub."""
        store = AnnouncingStore(announced_url, hub=place)
        yield store
        await asyncio.to_thread(store.hub.close)
        await store.close()

    @pytest.fixture
    def notifier(self, store: AnnouncingStore, place: str) -> Notifier:
        """A worker's notifier that knows the database by the same name."""
        return HubNotifier(parse_address(place), store.engines.called)

    @pytest.fixture
    def unreachable(self) -> Notifier:
        """A notifier of a hub that is not there."""
        return HubNotifier(parse_address("tcp://127.0.0.1:1"), "shop")

    async def test_workers_that_never_poll(
        self, store: Store, announced_url: str, place: str
    ) -> None:
        """Each job that commits by itself is begun at once, whoever of them looks."""
        app = Mutirao(announced_url, hub=place)
        send = app.task(nothing)
        async with never_polling(app), never_polling(app):
            for _ in range(10):
                await soon(ended(app, (await app.asubmit(send.job())).id))
        await app.aclose()

    async def test_what_nobody_tells(self, store: Store, announced_url: str) -> None:
        """The hub looks, and finds what is written past it, due at once or later."""
        announcing = SqlStore(announced_url)
        async with hub(announced_url) as place:
            app = Mutirao(announced_url, hub=place)
            app.task(nothing)
            async with never_polling(app):
                for delay in (0.0, 0.5, 0.0):
                    new = NewJob(task="nothing", delay=delay)
                    [id] = await announcing.aenqueue([new])
                    await soon(ended(app, id))
            await app.aclose()
        await announcing.close()


async def nothing() -> None:
    """Do nothing."""


class TestHubOfSqlite(HubContract):
    """For files of several processes."""

    @pytest.fixture
    def announced_url(self, migrated_sqlite_url: str) -> str:
        """A fresh file."""
        return migrated_sqlite_url


class TestHubOfPostgresql(HubContract):
    """For a server behind a pooler."""

    @pytest.fixture
    def announced_url(self, migrated_postgresql_url: str) -> str:
        """A fresh database."""
        return migrated_postgresql_url


class TestHubOfMariadb(HubContract):
    """For a server that wakes nobody."""

    @pytest.fixture
    def announced_url(self, server: MariadbServer, database: str) -> str:
        """The same database, empty."""
        with server.connect(database) as connection:
            empty(connection)
        return server.url(database)
