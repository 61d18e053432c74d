"""Holders of connections, each on a database of its own, and eyes on what others can see."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

import mutirao.sql.dialects.postgresql.enqueue as postgresql_intake
from mutirao.sql import migrations
from mutirao.sql.drivers import steps
from tests.integration.enqueue.holders import Holder
from tests.integration.enqueue.kit import AT_ONCE, CHUNK, Observer
from tests.support.mariadb import MysqlServer
from tests.support.postgresql import PostgresServer


@pytest.fixture(autouse=True)
def django_in_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    """All holders are awaited; Django would refuse to be called where an event loop runs."""
    monkeypatch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")


@pytest.fixture(scope="module")
def shop_server(postgres: PostgresServer, migrated_template: str) -> Iterator[Observer]:
    """One PostgreSQL database for all tests of a module: a new one for each is slow."""
    with postgres.database(migrated_template) as name, Observer(postgres.url(name)) as watching:
        watching.open_shop()
        yield watching


@pytest.fixture(scope="module")
def shop_file(migrated_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An SQLite file with the program's own table, to be copied."""
    path = Path(shutil.copy(migrated_file, tmp_path_factory.mktemp("shop") / "shop.db"))
    with Observer(f"sqlite:///{path}") as watching:
        watching.open_shop()
    return path


@pytest.fixture
def on_postgresql(shop_server: Observer) -> Observer:
    """The shop on PostgreSQL, empty."""
    shop_server.clear()
    return shop_server


@pytest.fixture
def on_sqlite(shop_file: Path, tmp_path: Path) -> Iterator[Observer]:
    """The shop on SQLite, empty."""
    with Observer(f"sqlite:///{shutil.copy(shop_file, tmp_path / 'shop.db')}") as watching:
        yield watching


@pytest.fixture(scope="module")
def shop_mysql(mysql: MysqlServer) -> Iterator[Observer]:
    """One database on MariaDB for all tests of a module."""
    url = mysql.url(mysql.create_database())
    migrations.upgrade(url)
    with Observer(url) as watching:
        watching.open_shop()
        yield watching


@pytest.fixture
def on_mysql(shop_mysql: Observer) -> Observer:
    """The shop on MariaDB, empty."""
    shop_mysql.clear()
    return shop_mysql


@pytest.fixture
def observer(request: pytest.FixtureRequest, kind: type[Holder]) -> Observer:
    """Another program on the database of `holder`, which sees what is committed."""
    watching = request.getfixturevalue(f"on_{kind.backend}")
    assert isinstance(watching, Observer)
    return watching


@pytest.fixture
async def holder(observer: Observer, kind: type[Holder]) -> AsyncIterator[Holder]:
    """A program that holds a connection of some kind."""
    async with kind(observer.url) as opened:
        yield opened


@pytest.fixture(scope="module")
def empty_server_url(postgres: PostgresServer) -> Iterator[str]:
    """The URL of an empty PostgreSQL database that nobody writes to."""
    with postgres.database() as name:
        yield postgres.url(name)


@pytest.fixture(scope="module")
def empty_mysql_url(mysql: MysqlServer) -> str:
    """The URL of an empty database on MariaDB that nobody writes to."""
    return mysql.url(mysql.create_database())


@pytest.fixture
def empty_url(request: pytest.FixtureRequest, kind: type[Holder]) -> str:
    """The URL of a database without Mutirão's tables, that suits the kind of holder."""
    names = {"sqlite": "sqlite_url", "postgresql": "empty_server_url", "mysql": "empty_mysql_url"}
    return str(request.getfixturevalue(names[kind.backend]))


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a hundred jobs go the way of a hundred thousand."""
    monkeypatch.setattr(steps, "MAX_JOBS_IN_MEMORY", CHUNK)
    monkeypatch.setattr(postgresql_intake, "MAX_JOBS_PER_INSERT", AT_ONCE)
