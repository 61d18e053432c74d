"""Other sessions of the server's database, and one that all tests of a file look and empty through.

To open a session takes longer than to ask.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from mutirao.sql.dialects.postgresql import statements
from tests.integration.transactions.kit import Others
from tests.support.emptying import empty_through
from tests.support.postgresql import PostgresServer


@pytest.fixture(scope="module")
def observer(postgres: PostgresServer, shared_database: str) -> Iterator[psycopg.Connection[Any]]:
    """A session that commits each statement."""
    with postgres.connect(shared_database) as session:
        yield session


# What a worker calls gives up after a second; a busy machine takes longer to look who waits.
PATIENT = b"""
DO $$
DECLARE
    each regprocedure;
BEGIN
    FOR each IN SELECT oid FROM pg_proc WHERE proconfig @> '{lock_timeout=1s}' LOOP
        EXECUTE pg_catalog.format('ALTER FUNCTION %s SET lock_timeout = %L', each, '100s');
    END LOOP;
END
$$
"""


@pytest.fixture(scope="module")
def patient(observer: psycopg.Connection[Any]) -> Iterator[None]:
    """Let workers wait for locks for as long as the tests of a file look at who waits."""
    observer.execute(PATIENT)
    with pytest.MonkeyPatch.context() as patch:
        for kind, sql in statements.FINISH.items():
            patch.setitem(statements.FINISH, kind, sql.replace("'1s'", "'100s'"))
        yield


@pytest.fixture
def emptied_postgresql_url(
    postgres: PostgresServer, shared_database: str, observer: psycopg.Connection[Any]
) -> str:
    """As everywhere, without a session of its own."""
    empty_through(observer)
    return postgres.url(shared_database)


@pytest.fixture
def others(
    pg_url: str, postgres: PostgresServer, shared_database: str, observer: psycopg.Connection[Any]
) -> Others:
    """Sessions that are not Mutirão's own."""
    return Others(postgres, shared_database, observer)
