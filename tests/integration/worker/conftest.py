"""An application on each database, with nothing in it when a test begins."""

from __future__ import annotations

import gc
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
from psycopg import sql

from mutirao import Mutirao
from mutirao.ports import Store
from mutirao.sql.store import SqlStore
from mutirao.sql.tables import metadata
from mutirao.testing.memory import MemoryStore
from tests.conftest import DATABASES
from tests.support.postgresql import PostgresServer

OpenStores = Callable[[str], Callable[[], list[Store]]]

EMPTY = sql.SQL("TRUNCATE {} RESTART IDENTITY").format(
    sql.SQL(", ").join(sql.Identifier(name) for name in metadata.tables)
)


@pytest.fixture(scope="module")
def shared_database(postgres: PostgresServer, migrated_template: str) -> Iterator[str]:
    """The name of a database with Mutirão's tables, and with what earlier tests left in them."""
    with postgres.database(migrated_template) as name:
        yield name
        # A connection that was given up while it was being made lives until it is collected, and
        # the server drops no database while somebody is at its door.
        gc.collect()


@pytest.fixture
def pg_url(postgres: PostgresServer, shared_database: str) -> str:
    """The URL (psycopg) of a PostgreSQL database with Mutirão's tables, emptied."""
    with postgres.connect(shared_database) as connection:
        connection.execute(EMPTY)
    return postgres.url(shared_database)


@pytest.fixture
def lite_url(migrated_file: Path, tmp_path: Path) -> str:
    """The URL of an SQLite file with Mutirão's tables, and nothing in them."""
    return f"sqlite:///{shutil.copy(migrated_file, tmp_path / 'shop.db')}"


@pytest.fixture(params=DATABASES)
def url(request: pytest.FixtureRequest) -> str:
    """The URL of a database without jobs, on each that Mutirão supports."""
    return str(
        request.getfixturevalue({"sqlite": "lite_url", "postgresql": "pg_url"}[request.param])
    )


@pytest.fixture
def open_stores(request: pytest.FixtureRequest) -> OpenStores:
    """Return what opens two handles on the same data, of a kind."""

    def opener(kind: str) -> Callable[[], list[Store]]:
        if kind == "memory":
            return lambda: [MemoryStore()] * 2
        url = request.getfixturevalue({"sqlite": "lite_url", "postgresql": "pg_url"}[kind])
        return lambda: [SqlStore(url), SqlStore(url)]

    return opener


@pytest.fixture
async def app(url: str) -> AsyncIterator[Mutirao]:
    """An application without tasks; on each database."""
    application = Mutirao(url)
    yield application
    await application.aclose()


@pytest.fixture
async def pg_app(pg_url: str) -> AsyncIterator[Mutirao]:
    """An application without tasks, on PostgreSQL."""
    application = Mutirao(pg_url)
    yield application
    await application.aclose()
