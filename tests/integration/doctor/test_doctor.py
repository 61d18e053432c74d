"""The doctor finds what is wrong, says what to do, and finds nothing where nothing is."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from functools import partial

import psycopg
import pytest
from sqlalchemy import make_url, text

from mutirao.model.findings import Finding, Level
from mutirao.model.jobs.job import NewJob, NewWorker
from mutirao.model.jobs.records import JobFilter
from mutirao.model.schedules import schedule_rules
from mutirao.sql.dialects.postgresql import health_checks as of_postgresql
from mutirao.sql.dialects.sqlite import health_checks as of_sqlite
from mutirao.sql.statements import doctor
from mutirao.sql.store.jobs import SqlStore
from mutirao_conformance.schedules import plan, scheduled
from tests.support.history import make_history, opened
from tests.support.waiting import DEADLINE, until

OK, WARNING, PROBLEM = Level.OK, Level.WARNING, Level.PROBLEM


@pytest.fixture
async def store(migrated_url: str) -> AsyncIterator[SqlStore]:
    """A store over an empty database."""
    async with opened(migrated_url) as store:
        yield store


async def examine(store: SqlStore, *known: str) -> list[Finding]:
    """Examine the store's database for an application with the task `send` and more."""
    return await doctor.examine(store.engines, {"send", *known})


async def find(store: SqlStore, about: str, *known: str) -> Finding:
    """Return the one finding about something."""
    (found,) = [finding for finding in await examine(store, *known) if finding.about == about]
    return found


async def do(store: SqlStore, statement: str) -> None:
    """Execute a statement behind the store's back."""
    with store.engines.sync().begin() as connection:
        connection.execute(text(statement))


async def join(store: SqlStore, *queues: str, expiry: float = 600, stuck: int = 0) -> int:
    """Register a worker with two slots that serves some queues, or all."""
    worker = NewWorker(
        name="w", host="h", pid=1, queues=queues or None, concurrency=2, version="1.0"
    )
    id = await store.register(worker, expiry=expiry)
    await store.beat(id, expiry=expiry, stuck=stuck)
    return id


async def test_nothing_is_wrong(store: SqlStore) -> None:
    """With jobs in every state and a worker that serves them, all is well."""
    await make_history(store)
    found = await examine(store)
    assert {finding.level for finding in found} == {OK}
    assert {"schema", "clock", "indexes", "bloat", "queues", "tasks", "workers"} <= {
        finding.about for finding in found
    }
    assert all(finding.advice is None for finding in found)


async def test_without_tables(database_url: str) -> None:
    """The schema is the one finding, then."""
    async with opened(database_url) as store:
        (found,) = await examine(store)
    assert (found.level, found.about) == (PROBLEM, "schema")
    assert "mutirao migrate" in str(found.advice)


@pytest.mark.parametrize(("hours", "word"), [(2, "ahead of"), (-2, "behind")])
async def test_clocks_that_disagree(
    store: SqlStore, hours: int, word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By how much, and in which direction."""
    theirs = datetime.now(UTC) + timedelta(hours=hours)
    admin = type(store.engines.dialect.admin)
    monkeypatch.setattr(admin, "clock", lambda self, connection: theirs)
    found = await find(store, "clock")
    assert found.level is WARNING
    assert word in found.found
    [off] = map(float, re.findall(r"([\d.]+) s", found.found))
    assert off == pytest.approx(7_200, abs=DEADLINE)


async def test_an_index_is_missing(store: SqlStore) -> None:
    """It is named, and where its statement is to be had."""
    table = "" if store.engines.url.get_backend_name() != "mysql" else " ON mutirao_attempt"
    await do(store, f"DROP INDEX mutirao_attempt_outcome{table}")
    found = await find(store, "indexes")
    assert (found.level, found.found) == (
        PROBLEM,
        "the index mutirao_attempt_outcome is missing"
        + (" or invalid" if store.engines.url.get_backend_name() == "postgresql" else ""),
    )
    assert "mutirao schema" in str(found.advice)


async def test_an_invalid_index(migrated_postgresql_url: str) -> None:
    """One that an interrupted REINDEX CONCURRENTLY left behind is as good as none."""
    async with opened(migrated_postgresql_url) as store:
        await do(
            store,
            "UPDATE pg_index SET indisvalid = false"
            " WHERE indexrelid = 'mutirao_live_fairness'::regclass".replace("::", r"\:\:"),
        )
        found = await find(store, "indexes")
    assert found.level is PROBLEM
    assert "mutirao_live_fairness" in found.found


async def test_claims_that_read_the_whole_table(migrated_postgresql_url: str) -> None:
    """A planner that leaves the index aside is found out once there are many jobs."""
    async with opened(migrated_postgresql_url) as store:
        await join(store)
        await store.aenqueue(NewJob(task="send") for _ in range(20_000))
        await store.refresh_statistics()
        assert (await find(store, "claims")).level is OK
        await do(store, "DROP INDEX mutirao_live_lanes")
        found = await find(store, "claims")
    assert found.level is PROBLEM
    assert "Seq Scan" in found.found


async def test_claims_without_the_index_on_sqlite(migrated_sqlite_url: str) -> None:
    """There the plan tells at once, with no job in the table."""
    async with opened(migrated_sqlite_url) as store:
        assert (await find(store, "claims")).level is OK
        await do(store, "DROP INDEX mutirao_live_waiting")
        found = await find(store, "claims")
    assert found.level is PROBLEM


async def test_dead_rows(migrated_postgresql_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many dead rows beside few live ones are bloat."""
    monkeypatch.setattr(of_postgresql, "DEAD_ROWS", 500)
    url = migrated_postgresql_url.replace("+psycopg", "")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("ALTER TABLE mutirao_live SET (autovacuum_enabled = false)")
        connection.execute(
            "INSERT INTO mutirao_live (id, queue, priority, run_at)"
            " SELECT n, 'q', 0, now() FROM generate_series(1, 1000) n"
        )
        connection.execute("DELETE FROM mutirao_live")
    async with opened(migrated_postgresql_url) as store, asyncio.timeout(60):
        found = await find(store, "bloat")
        while found.level is OK:  # the server's statistics follow a little later
            found = await find(store, "bloat")
        assert "1000 dead rows beside 0 live ones" in found.found
        assert "VACUUM mutirao_live" in str(found.advice)


async def test_an_old_transaction(
    migrated_postgresql_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever keeps dead rows from being removed is named, with the way to end it."""
    async with opened(migrated_postgresql_url) as store:
        url = migrated_postgresql_url.replace("+psycopg", "")
        async with await psycopg.AsyncConnection.connect(url, application_name="batch") as holder:
            await holder.execute("SELECT pg_current_xact_id()")
            assert (await find(store, "horizon")).level is OK
            monkeypatch.setattr(of_postgresql, "LONG_TRANSACTION_SECONDS", 0)
            found = await find(store, "horizon")
            assert found.level is WARNING
            assert f"session {holder.info.backend_pid} of postgres (batch)" in found.found
            assert f"pg_terminate_backend({holder.info.backend_pid})" in str(found.advice)
        assert (await find(store, "horizon")).level is OK


async def test_deadlocks(migrated_postgresql_url: str) -> None:
    """Those of anybody in the database are counted, by the server."""
    url = make_url(migrated_postgresql_url).set(drivername="postgresql")
    async with opened(migrated_postgresql_url) as store:
        assert "counts 0 deadlocks of anybody since" in (await find(store, "deadlocks")).found
        with (
            psycopg.connect(url.render_as_string(hide_password=False)) as one,
            psycopg.connect(url.render_as_string(hide_password=False)) as other,
        ):
            one.execute("LOCK TABLE mutirao_duty")
            other.execute("LOCK TABLE mutirao_tick")
            ends = await asyncio.gather(
                asyncio.to_thread(one.execute, "LOCK TABLE mutirao_tick"),
                asyncio.to_thread(other.execute, "LOCK TABLE mutirao_duty"),
                return_exceptions=True,
            )
        assert [type(end) for end in ends].count(psycopg.errors.DeadlockDetected) == 1

        async def counted() -> bool:
            return "counts 1 deadlocks of anybody since" in (await find(store, "deadlocks")).found

        await until(counted)


@pytest.mark.parametrize(
    ("retries", "jobs", "level"), [(10, 1, OK), (11, 11_000, OK), (11, 10_999, WARNING)]
)
async def test_our_own_deadlocks(
    migrated_postgresql_url: str, retries: int, jobs: int, level: Level
) -> None:
    """A few may happen, also one in a thousand jobs; more are told, with what to do."""
    async with opened(migrated_postgresql_url) as store:
        await do(store, f"SELECT setval('mutirao_retries', {retries})")
        await do(store, f"SELECT setval('mutirao_job_id_seq', {jobs})")
        found = await find(store, "deadlocks")
    assert f"tried {retries} transactions again, for {jobs} jobs" in found.found
    assert (found.level, found.advice is not None) == (level, level is WARNING)


@pytest.mark.parametrize(
    "setting",
    [
        "default_transaction_isolation=serializable",
        "session_replication_role=replica",
        "mutirao.notify=off",
    ],
)
async def test_settings_of_roles(migrated_postgresql_url: str, setting: str) -> None:
    """Those that are in the way are told, with whose sessions they are, and how to change them."""
    async with opened(migrated_postgresql_url) as store:
        assert (await find(store, "sessions")).level is OK
        database = make_url(migrated_postgresql_url).database
        await do(store, f"ALTER DATABASE {database} SET {setting}")
        found = [each for each in await examine(store) if each.about == "sessions"]
        assert {each.level for each in found} == {WARNING}
        assert any(f"this database: {setting} " in each.found for each in found)
        assert all(setting.partition("=")[0] in str(each.advice) for each in found)


async def test_a_forgotten_prepared_transaction(
    migrated_postgresql_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It keeps dead rows from being removed, like an open one; the advice says how to end it."""
    url = migrated_postgresql_url.replace("+psycopg", "")
    async with opened(migrated_postgresql_url) as store:
        with psycopg.connect(url) as holder:
            holder.execute("SELECT pg_current_xact_id()")
            holder.execute("PREPARE TRANSACTION 'order 7'")
        try:
            assert (await find(store, "horizon")).level is OK
            monkeypatch.setattr(of_postgresql, "LONG_TRANSACTION_SECONDS", 0)
            found = await find(store, "horizon")
        finally:
            with psycopg.connect(url, autocommit=True) as holder:
                holder.execute("ROLLBACK PREPARED 'order 7'")
        assert found.level is WARNING
        assert "prepared transaction order 7 of postgres has had" in found.found
        assert found.advice == "COMMIT PREPARED 'order 7' or ROLLBACK PREPARED 'order 7'"
        assert (await find(store, "horizon")).level is OK


async def test_a_file_that_is_not_in_wal_mode(migrated_sqlite_url: str) -> None:
    """It works, but readers and writers wait for each other."""
    async with opened(migrated_sqlite_url) as store:
        assert (await find(store, "journal")).level is OK
        with store.engines.sync().connect() as connection:
            connection.connection.driver_connection.execute(  # type: ignore[union-attr]
                "PRAGMA journal_mode = DELETE"
            )
        found = await find(store, "journal")
    assert (found.level, "delete mode" in found.found) == (WARNING, True)
    assert "mutirao migrate" in str(found.advice)


async def test_a_file_of_free_pages(
    migrated_sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was deleted leaves room in the file, which VACUUM gives back."""
    monkeypatch.setattr(of_sqlite, "FREE_PAGES", 50)
    async with opened(migrated_sqlite_url) as store:
        await store.aenqueue([NewJob(task="t", args=json.dumps({"x": "y" * 10_000}))] * 100)
        assert (await find(store, "bloat")).level is OK
        await store.cancel(JobFilter(limit=None))
        await do(store, "DELETE FROM mutirao_job")
        found = await find(store, "bloat")
    assert found.level is WARNING
    assert "VACUUM" in str(found.advice)


async def test_orphan_queues(store: SqlStore) -> None:
    """Queues with waiting jobs that no live worker serves are counted and named."""
    await store.aenqueue([NewJob(task="send", queue=q) for q in ("mail", "mail", "slow", "served")])
    await join(store, "served")
    await join(store, "slow", expiry=-1)
    found = await find(store, "queues")
    assert found.level is WARNING
    assert found.found == "no live worker serves 'mail' (2 jobs), 'slow' (1 jobs)"
    await join(store)
    assert (await find(store, "queues")).level is OK


async def test_many_orphan_queues_are_not_all_named(store: SqlStore) -> None:
    """Five, and how many more."""
    await store.aenqueue([NewJob(task="send", queue=f"q{n}") for n in range(8)])
    assert (await find(store, "queues")).found.endswith("'q4' (1 jobs) and 3 more")


async def test_tasks_that_nobody_knows(store: SqlStore) -> None:
    """Jobs of another version's tasks are named, with what can be done."""
    await store.aenqueue([NewJob(task="gone")] * 2 + [NewJob(task="send")])
    found = await find(store, "tasks")
    assert (found.level, found.found) == (
        WARNING,
        "this application has no task 'gone' (2 jobs)",
    )
    assert "mutirao cancel --task" in str(found.advice)
    assert (await find(store, "tasks", "gone")).level is OK


async def test_no_worker(store: SqlStore) -> None:
    """That is a problem once there are jobs."""
    assert (await find(store, "workers")).level is OK
    await store.aenqueue([NewJob(task="send")])
    found = await find(store, "workers")
    assert (found.level, found.found) == (PROBLEM, "none is registered")


async def test_a_heartbeat_that_came_late(store: SqlStore) -> None:
    """A handler may keep the interpreter to itself: told before its jobs are taken away."""
    id = await join(store, expiry=15)
    await store.beat(id, expiry=15, late=9.5)
    late = [found for found in await examine(store) if found.level is WARNING]
    assert [found.about for found in late] == ["workers"]
    assert f"a heartbeat of worker {id} (w) came 9.5 s late" in late[0].found
    assert "process=True" in str(late[0].advice)
    await store.beat(id, expiry=15, late=7.0)  # less than half of its lifetime
    assert all(found.level is OK for found in await examine(store))


async def test_a_worker_that_vanished(store: SqlStore) -> None:
    """Others take its jobs over; without others, nobody does."""
    made = await make_history(store)
    await store.beat(made.worker, expiry=-1)
    found = await find(store, "workers")
    assert found.level is PROBLEM
    assert "holds 1 jobs" in found.found
    await join(store)
    levels = [finding.level for finding in await examine(store) if finding.about == "workers"]
    assert levels == [WARNING, OK]


@pytest.mark.parametrize(("stuck", "level"), [(1, WARNING), (2, PROBLEM)])
async def test_slots_that_are_stuck(store: SqlStore, stuck: int, level: Level) -> None:
    """Some are a warning; all of them a problem."""
    id = await join(store, stuck=stuck)
    found = [finding for finding in await examine(store) if finding.about == "workers"]
    assert [finding.level for finding in found] == [level, OK]
    assert f"worker {id} (w) has lost {stuck} of 2 slots" in found[0].found


async def test_schedules_that_are_well(store: SqlStore) -> None:
    """Known tasks, ticks ahead; those that have finished do not count."""
    await plan(store, scheduled("a", seconds=500, job=NewJob(task="send")), now=None)
    await plan(store, scheduled("b", max_runs=1))
    await store.schedules.amend("b", schedule_rules.tick)
    found = await find(store, "schedules")
    assert (found.level, found.found) == (OK, "1 that tick, on time")


async def test_schedules_that_do_not_tick(store: SqlStore) -> None:
    """Nobody was there at their time; and nobody here knows their task."""
    await plan(store, scheduled())
    found = [each for each in await examine(store) if each.about == "schedules"]
    assert [each.level for each in found] == [PROBLEM, WARNING]
    assert "'s' should have ticked" in found[0].found
    assert "'s' make jobs of tasks that this application does not have" in found[1].found


async def test_schedules_that_are_paused(store: SqlStore) -> None:
    """By a person or by themselves, as their jobs only died: they are not on time."""
    await plan(store, scheduled(cron="0 0 1 1 *", job=NewJob(task="send")))
    await store.schedules.amend("s", partial(schedule_rules.pause, name="s", reason="it only died"))
    found = await find(store, "schedules")
    assert (found.level, found.found) == (WARNING, "'s' are paused and make no jobs")
    assert "mutirao schedules resume" in str(found.advice)


async def test_a_schedule_that_left_the_code(store: SqlStore) -> None:
    """Its last worker is gone for minutes; it ticks on, and that is said."""
    schedule = scheduled(cron="0 0 1 1 *", job=NewJob(task="send"))
    declare = partial(schedule_rules.declare, schedule=schedule, worker="w")
    await store.schedules.amend("s", declare)
    assert (await find(store, "schedules")).level == OK
    past = "0" if store.engines.in_thread else "'2001-01-01Z'"
    await do(store, f"UPDATE mutirao_schedule SET declared_at = {past}")  # noqa: S608
    found = await find(store, "schedules")
    assert (found.level, found.found) == (
        WARNING,
        "'s' were declared in code and are in no live worker's",
    )
    assert "mutirao schedules remove" in str(found.advice)
