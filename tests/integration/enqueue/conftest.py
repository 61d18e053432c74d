"""Holders of connections, each on a database of its own, and eyes on what others can see."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import psycopg
import pytest

import mutirao.sql.dialects.postgresql.intake as on_postgresql
import mutirao.sql.dialects.sqlite.intake as on_sqlite
from tests.integration.enqueue.holders import Holder
from tests.integration.enqueue.kit import AT_ONCE, CHUNK, Observer
from tests.support.postgresql import PostgresServer


@pytest.fixture(scope="module")
def shared_postgresql_url(postgres: PostgresServer, migrated_template: str) -> Iterator[str]:
    """The URL of one migrated database for all tests of a module: a copy for each is slow."""
    with postgres.database(migrated_template) as name:
        yield postgres.url(name)


@pytest.fixture(scope="module")
def shared_empty_postgresql_url(postgres: PostgresServer) -> Iterator[str]:
    """The URL of an empty database that nobody writes to."""
    with postgres.database() as name:
        yield postgres.url(name)


@pytest.fixture
def url(request: pytest.FixtureRequest, kind: type[Holder]) -> str:
    """The URL of a migrated database, empty of jobs, that suits the kind of holder."""
    if kind.backend == "sqlite":
        return str(request.getfixturevalue("migrated_sqlite_url"))
    shared = str(request.getfixturevalue("shared_postgresql_url"))
    with psycopg.connect(shared.replace("+psycopg", ""), autocommit=True) as conn:
        conn.execute("TRUNCATE mutirao_job, mutirao_live, mutirao_worker")
        conn.execute("DROP TABLE IF EXISTS shop_order")
    return shared


@pytest.fixture
def empty_url(request: pytest.FixtureRequest, kind: type[Holder]) -> str:
    """The URL of a database without Mutirão's tables, that suits the kind of holder."""
    name = "sqlite_url" if kind.backend == "sqlite" else "shared_empty_postgresql_url"
    return str(request.getfixturevalue(name))


@pytest.fixture
async def holder(url: str, kind: type[Holder]) -> AsyncIterator[Holder]:
    """A program that holds a connection of some kind."""
    async with kind(url) as opened:
        yield opened


@pytest.fixture
def observer(url: str) -> Iterator[Observer]:
    """Another program on the database of `holder`, which sees what is committed."""
    with Observer(url) as watching:
        yield watching


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a hundred jobs go the way of a hundred thousand."""
    for module in (on_postgresql, on_sqlite):
        monkeypatch.setattr(module, "CHUNK", CHUNK)
    monkeypatch.setattr(on_postgresql, "AT_ONCE", AT_ONCE)
