"""A server that has no more connections for us: those that are kept serve whoever needs one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import make_url

from mutirao.sql.store.jobs import SqlStore
from mutirao_conformance.kit import due, put
from tests.integration.troubles.conftest import DRIVERS
from tests.support.postgresql import PostgresServer
from tests.support.waiting import soon


@pytest.fixture
def role(postgres: PostgresServer, shared_database: str) -> Iterator[str]:
    """A role that may do everything with the tables, on one connection."""
    with postgres.connect(shared_database) as owner:
        owner.execute("CREATE ROLE lonely LOGIN PASSWORD 'lonely' CONNECTION LIMIT 1")
        owner.execute("GRANT ALL ON ALL TABLES IN SCHEMA public TO lonely")
        yield "lonely"
        owner.execute("DROP OWNED BY lonely")
        owner.execute("DROP ROLE lonely")


@pytest.mark.parametrize("driver", DRIVERS)
async def test_a_single_statement_takes_the_place_of_a_transaction(
    pg_url: str, role: str, driver: str
) -> None:
    """Else a worker that keeps connections for handlers could neither claim nor settle."""
    [job] = await put(owner := SqlStore(pg_url), due())
    url = make_url(pg_url).set(drivername=f"postgresql+{driver}", username=role, password=role)
    store = SqlStore(url)
    try:
        assert await soon(store.unlocked([job])) == {job}  # in a transaction
        assert await soon(store.held(1)) == []  # a single statement
        assert await soon(store.held(1)) == []
    finally:
        await store.close()
        await owner.close()
