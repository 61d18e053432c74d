"""A server that is read-only for a while: after a failover, or for maintenance. It passes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from mutirao import Mutirao
from mutirao.errors import StoreUnavailable
from tests.integration.service.kit import Tables, all_finished
from tests.integration.worker.kit import working
from tests.support.postgresql import PostgresServer
from tests.support.waiting import soon, until

JOBS = 100


@contextmanager
def read_only(postgres: PostgresServer) -> Iterator[None]:
    """Let nothing be written on the whole server."""
    with postgres.connect("postgres") as administrator:
        try:
            administrator.execute("ALTER SYSTEM SET default_transaction_read_only = on")
            administrator.execute("SELECT pg_reload_conf()")
            yield
        finally:
            administrator.execute("SET transaction_read_only = off")
            administrator.execute("ALTER SYSTEM RESET default_transaction_read_only")
            administrator.execute("SELECT pg_reload_conf()")


async def test_a_worker_waits_until_it_passes(
    troubled: Mutirao,
    tables: Tables,
    postgres: PostgresServer,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """None of its loops ends; the jobs that ran are settled then, and the others follow."""
    begun, go_on = asyncio.Event(), asyncio.Event()

    @troubled.task
    async def step() -> None:
        begun.set()
        await go_on.wait()

    await troubled.aenqueue_many([step.job() for _ in range(JOBS)])
    async with working(troubled, heartbeat=0.2, expiry=10, poll=0.2, batch=10) as worker:
        await soon(begun.wait())
        with read_only(postgres):
            await until(lambda: "no heartbeat" in caplog.text)  # every session has heard of it
            go_on.set()
            await until(lambda: "cannot settle" in caplog.text)
            assert "the database is read-only" in caplog.text
        await all_finished(tables, JOBS)
        assert worker.health().alive
    assert not [record for record in caplog.records if record.levelno > logging.WARNING]


async def test_a_worker_that_starts_then(troubled: Mutirao, postgres: PostgresServer) -> None:
    """It says so, and does not start."""

    @troubled.task
    async def step() -> None: ...

    with read_only(postgres), pytest.raises(StoreUnavailable, match="the database is read-only"):
        await soon(working(troubled).__aenter__())
