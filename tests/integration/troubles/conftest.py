"""Servers and ways to them that tests make trouble with."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
from sqlalchemy import make_url

from mutirao import Mutirao
from tests.integration.service.kit import Tables
from tests.support.postgresql import PostgresServer
from tests.support.proxy import Proxy

DRIVERS = ["psycopg", "asyncpg", "psycopg2"]


@pytest.fixture
def tables(pg_url: str) -> Tables:
    """The tables of the server, on a connection that no trouble meets."""
    return Tables(pg_url)


@pytest.fixture
def proxy(postgres: PostgresServer) -> Iterator[Proxy]:
    """A relay in front of the session's server."""
    with Proxy(postgres.port) as made:
        yield made


@pytest.fixture(params=DRIVERS)
async def troubled(
    request: pytest.FixtureRequest, pg_url: str, proxy: Proxy
) -> AsyncIterator[Mutirao]:
    """An application that reaches the server through the relay, with each driver."""
    url = make_url(pg_url).set(drivername=f"postgresql+{request.param}", port=proxy.port)
    application = Mutirao(url)
    yield application
    await application.aclose()
