"""Settings of sessions: whatever they are, jobs are right, or refused with the reason."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from sqlalchemy import make_url

from mutirao import JobState, Mutirao, Supersede, chain
from mutirao.model.jobs.job import Job
from tests.integration.transactions.kit import Others
from tests.integration.worker.kit import ended, working

SETTINGS = {
    "constraints": "SET CONSTRAINTS ALL IMMEDIATE",
    "lock_timeout": "SET lock_timeout = 1",
    "statement_timeout": "SET statement_timeout = 60000",
    "row_security": "SET row_security = off",
    "strings": "SET standard_conforming_strings = off",
    "dates": "SET DateStyle = 'German, DMY'",
    "intervals": "SET IntervalStyle = 'sql_standard'",
    "time zone": "SET TimeZone = 'Asia/Tehran'",
    "floats": "SET extra_float_digits = -3",
    "encoding": "SET client_encoding = 'LATIN1'",
}
DEFAULTS = {
    "row_security": "off",
    "standard_conforming_strings": "off",
    "DateStyle": "German, DMY",
    "IntervalStyle": "sql_standard",
    "TimeZone": "Asia/Tehran",
    "extra_float_digits": "-3",
    "bytea_output": "escape",
    "array_nulls": "off",
    "transform_null_equals": "on",
    "backslash_quote": "off",
    "default_transaction_deferrable": "on",
    "synchronous_commit": "off",
    "check_function_bodies": "off",
    "client_min_messages": "debug1",
    "lock_timeout": "10s",
    "idle_in_transaction_session_timeout": "60s",
}
DRIVERS = ["psycopg", "asyncpg", "psycopg2"]
LATER = datetime.now(UTC).replace(microsecond=123_456) + timedelta(days=1)


@pytest.mark.parametrize("setting", SETTINGS)
async def test_callers(pg_app: Mutirao, others: Others, setting: str) -> None:
    """All kinds of jobs, enqueued in a transaction with that setting."""
    rule = Supersede(by="kind", rules={("a", "a"): "newer"})

    @pg_app.task
    def plain(n: int = 0) -> None: ...

    @pg_app.task(fair_by="n")
    def fair(n: int) -> None: ...

    @pg_app.task(supersede=rule)
    def newest(kind: str) -> None: ...

    old = plain.using(key="k", delay=1_000).enqueue()
    first = newest.using(key="s", delay=1_000).enqueue("a")
    with others.session() as caller:
        caller.execute(SETTINGS[setting].encode())
        later = plain.using(conn=caller, run_at=LATER).enqueue()
        new = plain.using(conn=caller, key="k", on_conflict="replace").enqueue()
        found = plain.using(conn=caller, key="k").enqueue()
        last = newest.using(conn=caller, key="s").enqueue("a")
        many = await pg_app.aenqueue_many([plain.job(n) for n in range(300)])
        both = pg_app.enqueue_many([plain.using(key=f"b{n}").job() for n in (2, 1)], conn=caller)
        graph = pg_app.enqueue_graph(chain(plain.job(), fair.job(1)), conn=caller)
        caller.commit()
    assert found.id == new.id
    assert (await pg_app.ajob(later.id)).run_at == LATER
    assert [(await pg_app.ajob(h.id)).state for h in (old, first)] == [JobState.CANCELLED] * 2
    async with working(pg_app, poll=0.2):
        for id in (new.id, last.id, *many[:3], *both, *(each.id for each in graph.jobs)):
            assert (await ended(pg_app, id)).state is JobState.SUCCEEDED


@pytest.mark.repeats(
    "asyncpg", "psycopg2", decided="tests/integration/transactions/test_settings.py"
)
@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("setting", DEFAULTS)
async def test_workers(pg_url: str, others: Others, driver: str, setting: str) -> None:
    """Sessions of workers begin with that setting."""
    app = Mutirao(make_url(pg_url).set(drivername=f"postgresql+{driver}"))
    seen: list[datetime] = []

    @app.task(max_attempts=1)
    async def step(job: Job) -> None:
        seen.append(job.run_at)

    with others.by_default(setting, DEFAULTS[setting]):
        before = datetime.now(UTC) - timedelta(days=1)
        [id, other] = await app.aenqueue_many(
            [step.using(run_at=before).job(), step.using(run_at=LATER).job()]
        )
        async with working(app, poll=0.2):
            assert (await ended(app, id)).state is JobState.SUCCEEDED
        assert seen == [before]
        assert (await app.ajob(other)).run_at == LATER
    await app.aclose()


def test_without_triggers(pg_app: Mutirao, others: Others) -> None:
    """A job that would take another one's place is refused; others are not."""

    @pg_app.task
    def plain() -> None: ...

    plain.using(key="k", delay=1_000).enqueue()
    with others.session() as caller:
        caller.execute("SET session_replication_role = replica")
        plain.using(conn=caller).enqueue()
        plain.using(conn=caller, key="other").enqueue()
        with pytest.raises(psycopg.Error, match="session_replication_role is replica"):
            plain.using(conn=caller, key="k", on_conflict="replace").enqueue()


def test_without_the_schema(pg_app: Mutirao, others: Others) -> None:
    """Where the session does not look for the tables: it is said that they are missing."""

    @pg_app.task
    def plain() -> None: ...

    with others.session() as caller:
        caller.execute("SET search_path = pg_catalog")
        with pytest.raises(Exception, match="migrate"):
            plain.using(conn=caller).enqueue()
