"""A server that is read-only for a while: after a failover, or for maintenance. It passes."""

from __future__ import annotations

import asyncio
import logging
from contextlib import closing

import pytest
from sqlalchemy import make_url

from mutirao import Mutirao
from mutirao.errors import StoreUnavailable
from tests.integration.service.kit import Tables, all_finished
from tests.integration.worker.kit import working
from tests.support.log_records import ours
from tests.support.postgresql import PostgresServer
from tests.support.proxy import Proxy
from tests.support.waiting import soon, until

JOBS = 100


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
        with postgres.read_only():
            await until(lambda: "no heartbeat" in caplog.text)  # every session has heard of it
            go_on.set()
            await until(lambda: "cannot settle" in caplog.text)
            assert "the database is read-only" in caplog.text
        await all_finished(tables, JOBS)
        assert worker.health().alive
    assert not [record for record in ours(caplog) if record.levelno > logging.WARNING]


async def test_a_worker_that_starts_then(troubled: Mutirao, postgres: PostgresServer) -> None:
    """It says so, and does not start."""

    @troubled.task
    async def step() -> None: ...

    with postgres.read_only(), pytest.raises(StoreUnavailable, match="the database is read-only"):
        await soon(working(troubled).__aenter__())


async def test_a_standby_that_is_promoted(caplog: pytest.LogCaptureFixture) -> None:
    """Workers that were led to a server in recovery go on once it is the one that writes."""
    with PostgresServer() as primary, Proxy(primary.port) as proxy:
        application = Mutirao(make_url(primary.url()).set(port=proxy.port))
        await asyncio.to_thread(application.migrate)

        @application.task
        async def step() -> None: ...

        async with working(application, heartbeat=0.2, expiry=10, poll=0.2) as worker:
            await application.aenqueue_many([step.job()])
            standby = await asyncio.to_thread(primary.standby)
            try:
                proxy.lead_to(standby.port)
                await asyncio.to_thread(primary.stop)
                await until(lambda: "the database is read-only" in caplog.text)
                await asyncio.to_thread(standby.promote)
                with closing(Mutirao(standby.url())) as other:
                    [id] = other.enqueue_many([step.job()])
                await until(lambda: _succeeded(standby, id))
                assert worker.health().alive
            finally:
                await application.aclose()
                standby.close()


def _succeeded(server: PostgresServer, id: int) -> bool:
    with server.connect() as connection:
        found = connection.execute("SELECT outcome FROM mutirao_attempt WHERE job = %s", (id,))
        return found.fetchall() == [("succeeded",)]
