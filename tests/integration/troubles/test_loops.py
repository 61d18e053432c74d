"""Programs without an event loop of their own: each call has another one."""

from __future__ import annotations

import asyncio
import gc

import pytest
from sqlalchemy import make_url, text

from mutirao import Mutirao
from tests.integration.service.kit import Tables
from tests.support.waiting import wait_until

OTHERS = text(
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
    " AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
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
