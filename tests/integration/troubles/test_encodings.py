"""Databases that do not have every letter."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mutirao import Mutirao
from mutirao.errors import StoreRefused
from mutirao.sql import migrations
from tests.integration.service.kit import Tables
from tests.integration.troubles.conftest import DRIVERS
from tests.integration.worker.kit import ended, outcomes, working
from tests.support.postgresql import PostgresServer
from tests.support.waiting import DEADLINE


@pytest.fixture
def latin(postgres: PostgresServer) -> Iterator[str]:
    """The URL of a database in LATIN1."""
    name = "mutirao_latin"
    with postgres.connect() as administrator:
        administrator.execute(
            f"CREATE DATABASE {name} TEMPLATE template0"
            " ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C'"
        )
    try:
        yield postgres.url(name)
    finally:
        postgres.drop_database(name)


@pytest.mark.parametrize("driver", DRIVERS)
async def test_latin1(latin: str, driver: str) -> None:
    """What it has is served; what it lacks fails where it comes from, and harms no other job."""
    migrations.upgrade(latin)
    app = Mutirao(latin.replace("psycopg", driver))

    @app.task(queue="café", max_attempts=1, keep_result=True)
    async def echo(name: str) -> str:
        return "日本" if name == "Japan" else name

    async with working(app, poll=0.2) as worker:
        for call in (echo.using(queue="日本").aenqueue("ø"), echo.aenqueue("日本")):
            with pytest.raises(StoreRefused, match="has no equivalent in encoding"):
                await call
        refused, written = await echo.aenqueue("Japan"), await echo.aenqueue("ø")
        assert await written.aresult(timeout=DEADLINE) == "ø"
        job = await ended(app, refused.id)
        assert worker.health().alive
    assert (job.queue, outcomes(job)) == ("café", ["dead"])
    assert "has no equivalent in encoding" in str(job.attempts[0].error)
    await app.aclose()
    assert Tables(latin).workers() == set()


@pytest.mark.parametrize("driver", DRIVERS)
async def test_workers_that_name_queues(latin: str, driver: str) -> None:
    """With what the database lacks, one does not start, and does no harm to whoever enqueues."""
    migrations.upgrade(latin)
    app = Mutirao(latin.replace("psycopg", driver))

    @app.task(queue="café")
    async def echo() -> None: ...

    with pytest.raises(StoreRefused, match="LATIN1"):
        await app.worker(exclude_queues=["日本"]).__aenter__()
    async with working(app, queues=["café"], poll=10 * DEADLINE):
        assert outcomes(await ended(app, (await echo.aenqueue()).id)) == ["succeeded"]
    await app.aclose()
