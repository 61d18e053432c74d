"""A loop of a worker that is cancelled again while psycopg cancels its query."""

from __future__ import annotations

import asyncio

import pytest
from psycopg import AsyncConnection
from sqlalchemy import make_url

from mutirao.engine.loops import end_tasks
from mutirao.sql.drivers import psycopg as _  # noqa: F401 (it hears what psycopg logs)
from tests.support.waiting import until


@pytest.mark.parametrize(("name", "told"), [("mutirao-producer", 0), ("another", 1)])
async def test_a_query_that_is_cut_and_cancelled(
    name: str, told: int, postgresql_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It is as it should be: of a worker psycopg tells nobody, of others what it always does."""
    url = make_url(postgresql_url).set(drivername="postgresql")
    conn = await AsyncConnection.connect(url.render_as_string(hide_password=False))
    asking = asyncio.create_task(_ask(conn), name=name)
    await until(lambda: conn.lock.locked())
    await asyncio.sleep(0)
    await until(lambda: conn.info.transaction_status.name == "ACTIVE")
    asking.cancel()
    await asyncio.sleep(0)
    await end_tasks(asking)
    assert sum("cancellation interrupted" in each.getMessage() for each in caplog.records) == told
    await conn.close()


async def _ask(conn: AsyncConnection) -> None:
    await conn.execute("SELECT pg_sleep(60)")
