"""Workers on PostgreSQL through each driver: everything works that the driver can do."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from sqlalchemy import text

from mutirao import Job, Mutirao, Retry
from tests.integration.service.kit import Tables
from tests.integration.worker.kit import ended, outcomes, working

COUNT = text("SELECT count(*) FROM mutirao_job")
PLAIN_CANNOT = {"asyncpg"}
COROUTINES_CANNOT = {"psycopg2"}


@pytest.fixture(params=["psycopg", "asyncpg", "psycopg2"])
def driver(request: pytest.FixtureRequest) -> str:
    """The name of a driver."""
    return str(request.param)


@pytest.fixture
async def shop(pg_url: str, driver: str) -> AsyncIterator[Mutirao]:
    """An application that uses it."""
    app = Mutirao(pg_url.replace("psycopg", driver))
    yield app
    await app.aclose()


async def test_handlers(shop: Mutirao, pg_url: str) -> None:
    """Coroutines and plain functions run, fail, and are retried."""

    @shop.task(retry=Retry.fixed(2, interval=0))
    async def coroutine(job: Job) -> None:
        if job.attempt == 1:
            raise ValueError("once")

    @shop.task(retry=Retry.fixed(2, interval=0))
    def plain(job: Job) -> None:
        if job.attempt == 1:
            raise ValueError("once")

    async with working(shop):
        ids = await shop.aenqueue_many([task.job() for task in (coroutine, plain) for _ in "1234"])
        for id in ids:
            assert outcomes(await ended(shop, id)) == ["retried", "succeeded"]
    assert Tables(pg_url).workers() == set()


async def test_a_coroutine_s_transaction(shop: Mutirao, driver: str) -> None:
    """Commits with the job; with a driver that has no such form, the error says what would do."""

    @shop.task
    async def child() -> None: ...

    @shop.task(max_attempts=1)
    async def complete(job: Job) -> None:
        async with job.transaction() as session:
            assert await session.scalar(COUNT) == 1
            await child.using(conn=session).aenqueue()

    async with working(shop):
        record = await ended(shop, (await complete.aenqueue()).id)
        if driver not in COROUTINES_CANNOT:
            assert outcomes(await ended(shop, record.id + 1)) == ["succeeded"]
    check(record.error, outcomes(record), driver in COROUTINES_CANNOT, "asynchronous")


async def test_a_plain_handler_s_transaction(shop: Mutirao, driver: str) -> None:
    """As above, in threads."""

    @shop.task
    def child() -> None: ...

    @shop.task(max_attempts=1)
    def complete(job: Job) -> None:
        with job.transaction() as session:
            assert session.scalar(COUNT) == 1
            child.using(conn=session).enqueue()

    async with working(shop):
        record = await ended(shop, (await complete.aenqueue()).id)
        if driver not in PLAIN_CANNOT:
            assert outcomes(await ended(shop, record.id + 1)) == ["succeeded"]
    check(record.error, outcomes(record), driver in PLAIN_CANNOT, "synchronous")


def check(error: str | None, found: list[str], cannot: bool, form: str) -> None:
    """Assert that the job has succeeded, or died of a driver that has no such form."""
    if cannot:
        assert found == ["dead"]
        assert f"has no {form} form; use" in (error or "")
        assert "postgresql+psycopg:// URL" in (error or "")
    else:
        assert found == ["succeeded"]
