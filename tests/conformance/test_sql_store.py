"""The contract of a store, on SQL: the same tests on SQLite and on PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from mutirao.errors import SchemaMissing
from mutirao.ports import Store
from mutirao.sql.store import SqlStore
from mutirao.testing.conformance import StoreContract


class TestSqlStore(StoreContract):
    """The whole contract, on every database that Mutirão supports."""

    @pytest.fixture
    async def store(self, migrated_url: str) -> AsyncIterator[Store]:
        """A store on a fresh database."""
        store = SqlStore(migrated_url)
        yield store
        await store.close()


async def test_no_tables(database_url: str) -> None:
    """A database that was never migrated is named as such, with the command to run."""
    store = SqlStore(database_url)
    with pytest.raises(SchemaMissing, match="mutirao migrate"):
        await store.check()
    await store.close()
