"""Other sessions of the server's database."""

from __future__ import annotations

import pytest

from tests.integration.transactions.kit import Others
from tests.support.postgresql import PostgresServer


@pytest.fixture
def others(pg_url: str, postgres: PostgresServer, shared_database: str) -> Others:
    """Sessions that are not Mutirão's own."""
    return Others(postgres, shared_database)
