"""One PostgreSQL database for a whole module, emptied for each test: many times faster."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from psycopg import sql

from mutirao.sql.tables import metadata
from tests.support.postgresql import PostgresServer


@pytest.fixture(scope="module")
def shared_database(postgres: PostgresServer, migrated_template: str) -> Iterator[str]:
    """The name of a database with Mutirão's tables, and with what earlier tests left in them."""
    with postgres.database(migrated_template) as name:
        yield name


@pytest.fixture
def emptied_postgresql_url(postgres: PostgresServer, shared_database: str) -> str:
    """The URL (psycopg) of a database with Mutirão's tables, as empty as when they were made."""
    tables = sql.SQL(", ").join(sql.Identifier(name) for name in metadata.tables)
    with postgres.connect(shared_database) as connection:
        connection.execute(sql.SQL("TRUNCATE {} RESTART IDENTITY").format(tables))
    return postgres.url(shared_database)
