"""A pooler in transaction mode that knows nothing of prepared statements: PgBouncer 1.18."""

from __future__ import annotations

import logging

import pytest

from mutirao import Mutirao
from tests.integration.service.kit import Tables, all_finished
from tests.integration.troubles.conftest import DRIVERS
from tests.integration.worker.kit import working
from tests.support.pgbouncer import pgbouncer

JOBS = 300
MOST_FORGOTTEN = 20  # connections that were opened before it was noticed meet it once each


@pytest.mark.parametrize("driver", DRIVERS)
async def test_jobs_run(
    pg_url: str, tables: Tables, driver: str, caplog: pytest.LogCaptureFixture
) -> None:
    """All of them: statements are not prepared any more, and the log says why."""
    with pgbouncer(pg_url) as front:
        url = front.set(drivername=f"postgresql+{driver}")
        if driver == "asyncpg":  # as SQLAlchemy's manual advises; it is not enough
            url = url.update_query_dict({"prepared_statement_cache_size": "0"})
        app = Mutirao(url)

        @app.task
        async def step() -> None: ...

        await app.aenqueue_many([step.job() for _ in range(JOBS)])
        async with working(app, poll=0.2, batch=10):
            await all_finished(tables, JOBS)
        await app.aclose()
    assert not [record for record in caplog.records if record.levelno > logging.WARNING]
    forgotten = caplog.text.count("a prepared statement is not as it was left")
    assert forgotten == 0 if driver == "psycopg2" else 0 < forgotten < MOST_FORGOTTEN
    assert tables.outcomes() == {"succeeded"}
