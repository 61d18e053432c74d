"""An application on each database, with nothing in it when a test begins."""

from __future__ import annotations

import logging
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from mutirao import Mutirao
from mutirao.ports import Store
from mutirao.sql.store.jobs import SqlStore

# Databases that wake idle workers, as nearly all of these tests want it.
_URLS = {"sqlite": "lite_url", "postgresql": "pg_url"}
OpenStores = Callable[[str], Callable[[], list[Store]]]


@pytest.fixture
def pg_url(emptied_postgresql_url: str) -> str:
    """The URL (psycopg) of a PostgreSQL database with Mutirão's tables, emptied."""
    return emptied_postgresql_url


@pytest.fixture
def lite_url(migrated_file: Path, tmp_path: Path) -> str:
    """The URL of an SQLite file with Mutirão's tables, and nothing in them."""
    return f"sqlite:///{shutil.copy(migrated_file, tmp_path / 'shop.db')}"


@pytest.fixture(params=sorted(_URLS))
def url(request: pytest.FixtureRequest) -> str:
    """The URL of a database without jobs, on each that wakes workers by itself."""
    return str(request.getfixturevalue(_URLS[request.param]))


@pytest.fixture
def open_stores(request: pytest.FixtureRequest) -> OpenStores:
    """Return what opens two handles on the same data, of a kind."""

    def opener(kind: str) -> Callable[[], list[Store]]:
        url = request.getfixturevalue(_URLS[kind])
        return lambda: [SqlStore(url), SqlStore(url)]

    return opener


@pytest.fixture
async def app(url: str) -> AsyncIterator[Mutirao]:
    """An application without tasks; on each database. Closed for plain callers, too."""
    application = Mutirao(url)
    yield application
    await application.aclose()
    application.close()


@pytest.fixture
async def pg_app(pg_url: str) -> AsyncIterator[Mutirao]:
    """An application without tasks, on PostgreSQL."""
    application = Mutirao(pg_url)
    yield application
    await application.aclose()


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    """Take back what commands do to logging, which lasts as long as the process otherwise."""
    root, own = logging.getLogger(), logging.getLogger("mutirao")
    handlers, levels = list(root.handlers), (root.level, own.level)
    yield
    root.handlers[:] = handlers
    for logger, level in zip((root, own), levels, strict=True):
        logger.setLevel(level)
