"""Programs without an event loop of their own: each call has another one."""

from __future__ import annotations

import asyncio
import gc

import pytest
from sqlalchemy import create_engine, make_url, text

from mutirao import Mutirao
from tests.integration.service.kit import Tables
from tests.support.waiting import wait_until

OTHERS = text(
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
    " AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
)
MYSQL_OTHERS = text(
    "SELECT count(*) FROM information_schema.processlist WHERE db = DATABASE()"
    " AND id <> CONNECTION_ID()"
)

MOST = 2  # sessions of a loop: for single statements, and for transactions


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # a closed loop closes nothing any more
@pytest.mark.parametrize("driver", ["psycopg", "asyncpg"])
def test_closed_loops_leave_no_sessions(pg_url: str, tables: Tables, driver: str) -> None:
    """Only the last one's are there, until `close`: nobody has told that it was the last call."""
    app = Mutirao(make_url(pg_url).set(drivername=f"postgresql+{driver}"))

    @app.task
    async def greet() -> None: ...

    async def call() -> None:
        await app.acancel((await greet.aenqueue()).id)  # a single statement, and a transaction

    for _ in range(3):
        asyncio.run(call())

    wait_until(lambda: tables.rows(OTHERS)[0][0] <= MOST)
    app.close()
    wait_until(lambda: not tables.rows(OTHERS)[0][0])
    gc.collect()  # while their warnings are ignored


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_closed_loops_leave_no_sessions_of_aiomysql(migrated_mysql_url: str) -> None:
    """A handler's transport cannot be closed any more either: its loop is."""
    app, other = Mutirao(migrated_mysql_url), create_engine(migrated_mysql_url)

    async def call() -> None:
        async with app._engines.asynchronous(alone=True).connect() as conn:
            await conn.exec_driver_sql("SELECT 1")

    def sessions() -> int:
        with other.connect() as conn:
            return int(conn.scalar(MYSQL_OTHERS))

    gc.disable()  # which would close them at some time
    try:
        for _ in range(4):
            asyncio.run(call())
        wait_until(lambda: sessions() <= 1)
        app.close()
        wait_until(lambda: not sessions())
    finally:
        gc.enable()
        gc.collect()
        other.dispose()
