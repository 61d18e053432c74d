"""Several sets of jobs in one database, each in a schema of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import asyncpg
import psycopg
import pytest
from sqlalchemy import make_url, text
from sqlalchemy.ext.asyncio import create_async_engine

from mutirao import Job, JobState, Mutirao
from mutirao.errors import SchemaMissing, StoreUnavailable
from mutirao.model.findings import Level
from mutirao.sql import migrations
from tests.integration.worker.kit import ended, never_polling, working
from tests.support.company import MIGRATOR, Company
from tests.support.pgbouncer import pgbouncer
from tests.support.postgresql import PostgresServer

DRIVERS = ["psycopg", "asyncpg", "psycopg2"]
IDLE = """
INSERT INTO jobs.mutirao_worker (name, host, pid, concurrency, version, expires_at)
VALUES ('w', 'h', 1, 1, '0', statement_timestamp() + interval '1 hour')
"""


@pytest.fixture(scope="module")
def database(postgres: PostgresServer) -> Iterator[str]:
    """The name of a database with two sets, `jobs` and `mail`, and no other tables."""
    with postgres.database() as name:
        for schema in ("jobs", "mail"):
            migrations.upgrade(postgres.url(name), schema)
        yield name


@pytest.fixture
def there(postgres: PostgresServer, database: str) -> str:
    """The URL (psycopg) of that database, for connections whose path leads to no set."""
    return postgres.url(database)


@pytest.fixture
async def jobs(there: str) -> AsyncIterator[Mutirao]:
    """An application on the set `jobs`."""
    app = Mutirao(there, schema="jobs")
    yield app
    await app.aclose()
    app.close()


@pytest.fixture
async def mail(there: str) -> AsyncIterator[Mutirao]:
    """Another one on the set `mail`."""
    app = Mutirao(there, schema="mail")
    yield app
    await app.aclose()
    app.close()


def dsn(url: str) -> str:
    """Return a URL for psycopg itself."""
    return url.replace("+psycopg", "")


@pytest.mark.parametrize("driver", DRIVERS)
async def test_any_driver(there: str, driver: str) -> None:
    """One job and many, a unique key, a worker that is woken: it never polls."""
    app = Mutirao(make_url(there).set(drivername=f"postgresql+{driver}"), schema="jobs")

    @app.task(queue=driver)
    async def step(n: int = 0) -> int:
        return n

    async with never_polling(app, queues=[driver]):
        one = await step.aenqueue(n=1)
        assert (await ended(app, one.id)).state is JobState.SUCCEEDED
        *_, last = await app.aenqueue_many([step.job(n=n) for n in range(300)])
        assert (await ended(app, last)).state is JobState.SUCCEEDED
    old = await step.using(key=driver, delay=1_000).aenqueue()
    await step.using(key=driver, on_conflict="replace", delay=1_000).aenqueue()
    assert (await app.ajob(old.id)).state is JobState.CANCELLED
    await app.aclose()


@pytest.mark.parametrize("path", ["", "mail", "pg_catalog, public"])
async def test_any_path_of_a_caller(jobs: Mutirao, mail: Mutirao, there: str, path: str) -> None:
    """A job is of the application's set, also where the caller's path leads to another one."""
    task = jobs.task(name=f"path {path}")(_nothing)
    with psycopg.connect(dsn(there)) as caller:
        caller.execute("SELECT set_config('search_path', %s, false)", [path])
        one = task.using(conn=caller).enqueue()
        many = jobs.enqueue_many([task.job() for _ in range(300)], conn=caller)
        [(kept,)] = caller.execute("SELECT current_setting('search_path')").fetchall()
    assert kept == path
    other = await asyncpg.connect(dsn(there), server_settings={"search_path": path})
    last = await task.using(conn=other).aenqueue()
    await other.close()
    found = {record.id for record in await jobs.ajobs(task=task.name, limit=1_000)}
    assert found == {one.id, last.id, *many}
    assert await mail.ajobs(task=task.name) == []


async def test_in_a_handler(jobs: Mutirao, there: str) -> None:
    """What it says itself in `job.transaction()` is left as it is; its jobs are of the set."""

    @jobs.task
    async def child() -> None: ...

    @jobs.task
    async def parent(job: Job) -> None:
        async with job.transaction() as session:
            await session.execute(text("CREATE TABLE mutirao_jobs (mine int)"))
            await session.execute(text("INSERT INTO mutirao_jobs VALUES (7)"))
            await child.using(conn=session).aenqueue()

    @jobs.task
    def plain(job: Job) -> None:
        with job.transaction(connection=True) as driver:
            driver.execute("INSERT INTO mutirao_jobs VALUES (8)")
            child.using(conn=driver).enqueue()

    async with working(jobs):
        first = await parent.aenqueue()
        assert (await ended(jobs, first.id)).state is JobState.SUCCEEDED
        second = await plain.aenqueue()
        assert (await ended(jobs, second.id)).state is JobState.SUCCEEDED
    with psycopg.connect(dsn(there)) as caller:
        rows = caller.execute("SELECT mine FROM public.mutirao_jobs").fetchall()
        caller.execute("DROP TABLE public.mutirao_jobs")
    assert rows == [(7,), (8,)]
    assert len(await jobs.ajobs(task=child.name)) == 2


async def test_one_transaction_of_two_sets(postgres: PostgresServer) -> None:
    """The ids are the same in both: what is replaced in one is not touched in the other."""
    with postgres.database() as name:
        apps = [Mutirao(postgres.url(name), schema=schema) for schema in ("jobs", "mail")]
        for app in apps:
            await asyncio.to_thread(app.migrate)
        first, second = (app.task(name="both")(_nothing) for app in apps)
        old = await first.using(key="k", delay=1_000).aenqueue()
        others = [await second.using(key=key, delay=1_000).aenqueue() for key in ("a", "k")]
        assert old.id == others[0].id
        with psycopg.connect(dsn(postgres.url(name))) as caller:
            for task in (first, second):
                task.using(key="k", on_conflict="replace", delay=1_000, conn=caller).enqueue()
        states = [(await apps[1].ajob(each.id)).state for each in others]
        assert (await apps[0].ajob(old.id)).state is JobState.CANCELLED
        assert states == [JobState.SCHEDULED, JobState.CANCELLED]
        for app in apps:
            await app.aclose()


async def test_plain_sql(jobs: Mutirao, there: str) -> None:
    """A function and a view, by their schema, whatever the path."""
    task = jobs.task(name="by hand")(_nothing)
    with psycopg.connect(dsn(there)) as caller:
        caller.execute("SET search_path TO mail")
        [(id,)] = caller.execute("SELECT jobs.mutirao_enqueue('by hand', '{}')").fetchall()
        [(name,)] = caller.execute(
            "SELECT task FROM jobs.mutirao_jobs WHERE id = %s", [id]
        ).fetchall()
    assert name == task.name
    async with working(jobs):
        assert (await ended(jobs, id)).state is JobState.SUCCEEDED


async def test_wakes_are_of_a_set(jobs: Mutirao, mail: Mutirao, there: str) -> None:
    """Who listens to one hears nothing of the other: of new jobs, changes and ends."""
    task = jobs.task(name="heard")(_nothing)
    with psycopg.connect(dsn(there), autocommit=True) as listener:
        for channel in ("mutirao", "mutirao.mail", "mutirao.jobs", "mutirao_ended.jobs"):
            listener.execute(f'LISTEN "{channel}"'.encode())
        heard: list[str] = []
        listener.add_notify_handler(lambda told: heard.append(told.channel))
        listener.execute(IDLE)
        handle = await task.aenqueue()
        listener.execute("DELETE FROM jobs.mutirao_worker")
        assert heard == ["mutirao.jobs"]
        await jobs.store.await_ends([handle.id])
        await jobs.acancel(ids=[handle.id])
        listener.execute("SELECT")
        assert heard[1:] == ["mutirao_ended.jobs"]
        other = await mail.task(name="heard")(_nothing).using(delay=1_000).aenqueue()
        await mail.achange(other.id, priority=1)
        listener.execute("SELECT")
        assert set(heard[2:]) == {"mutirao.mail"}


async def test_what_is_printed(postgres: PostgresServer) -> None:
    """It makes the schema and the tables; the application finds nothing wrong with them."""
    with postgres.database() as name:
        with postgres.connect(name) as connection:
            connection.execute(Mutirao.ddl("postgresql", "jobs").encode())
            rows = connection.execute(
                "SELECT nspname, count(*) FROM pg_proc JOIN pg_namespace n ON n.oid = pronamespace"
                " WHERE proname LIKE 'mutirao\\_%' GROUP BY 1"
            ).fetchall()
        app = Mutirao(postgres.url(name), schema="jobs")
        assert [schema for schema, _ in rows] == ["jobs"]
        assert app.migrate() == (await _revision(app))
        await app.aclose()


async def _revision(app: Mutirao) -> str:
    await app.acheck()
    [found] = [each for each in await app.aexamine() if each.about == "schema"]
    assert (found.level, "in schema jobs" in found.found) == (Level.OK, True)
    return found.found.split()[1]


async def test_doctor(postgres: PostgresServer, migrated_template: str) -> None:
    """It looks into its own set, and names what is to be mended by its schema."""
    with postgres.database(migrated_template) as name:
        migrations.upgrade(postgres.url(name), "jobs")
        with postgres.connect(name) as connection:
            connection.execute("DROP INDEX jobs.mutirao_attempt_outcome")
        for schema, level in (("jobs", Level.PROBLEM), (None, Level.OK)):
            app = Mutirao(postgres.url(name), schema=schema)
            [found] = [each for each in await app.aexamine() if each.about == "indexes"]
            assert found.level is level
            if schema is not None:
                assert "DROP INDEX IF EXISTS jobs.mutirao_attempt_outcome" in str(found.advice)
            await app.aclose()


@pytest.mark.parametrize("schema", ["jobs", "mail"])
async def test_found_by_a_path(there: str, schema: str) -> None:
    """Without `schema=` the set is worked off, but nobody hears of its jobs; `doctor` says so."""
    by_path = make_url(there).update_query_dict({"options": f"-csearch_path={schema}"})
    for app, deaf in ((Mutirao(by_path), True), (Mutirao(by_path, schema=schema), False)):
        wakes = [each.level for each in await app.aexamine() if each.about == "wakes"]
        assert wakes == [Level.WARNING] * deaf
        await app.aclose()


async def test_an_engine(there: str) -> None:
    """Of the application: its own statements are left alone, and workers listen through it."""
    engine = create_async_engine(there)
    app = Mutirao(engine=engine, schema="mail")

    @app.task(queue="engine")
    async def step() -> None: ...

    async with never_polling(app, queues=["engine"]):
        async with engine.begin() as connection:
            assert await connection.scalar(text("SELECT to_regclass('mutirao_job')")) is None
            handle = await step.using(conn=connection).aenqueue()
        assert (await ended(app, handle.id)).state is JobState.SUCCEEDED
    await app.aclose()
    await engine.dispose()


async def test_behind_a_pooler(jobs: Mutirao, mail: Mutirao, there: str) -> None:
    """Two sets share the server's connections, none of which has a path."""
    with pgbouncer(there, servers=2) as front:
        apps = [Mutirao(front, schema=schema) for schema in ("jobs", "mail")]
        tasks = [app.task(name="pooled", queue="pooled")(_nothing) for app in apps]
        ids = [
            await app.aenqueue_many([task.job()] * 300)
            for app, task in zip(apps, tasks, strict=True)
        ]
        async with (
            working(apps[0], queues=["pooled"], poll=0.2),
            working(apps[1], queues=["pooled"], poll=0.2),
        ):
            for direct, given in zip((jobs, mail), ids, strict=True):
                for id in (given[0], given[-1]):
                    assert (await ended(direct, id)).state is JobState.SUCCEEDED
        for app in apps:
            await app.aclose()


async def test_no_tables_there(
    there: str, postgres: PostgresServer, migrated_template: str
) -> None:
    """Tables of another set, in `public` even, are not taken for those of this one."""
    with postgres.database(migrated_template) as name:
        app = Mutirao(postgres.url(name), schema="jobs")
        task = app.task(name="nowhere")(_nothing)
        with pytest.raises(SchemaMissing, match="in schema jobs"):
            await app.acheck()
        with pytest.raises(SchemaMissing, match="mutirao migrate"):
            await task.aenqueue()
        with psycopg.connect(dsn(postgres.url(name))) as caller:
            with pytest.raises(SchemaMissing, match="mutirao migrate"):
                task.using(conn=caller).enqueue()
            caller.rollback()
            with pytest.raises(SchemaMissing, match="mutirao migrate"):
                app.enqueue_many([task.job() for _ in range(300)], conn=caller)
        await app.aclose()


async def test_roles(postgres: PostgresServer) -> None:
    """A migrator that owns the schema, and roles with what is printed for it, and nobody else."""
    with postgres.database() as name:
        company = Company(postgres, name)
        company.found("jobs")
        url = company.hire("company_worker", "worker", schema="jobs")
        worker = Mutirao(url, schema="jobs")
        task = worker.task(name="granted")(_nothing)
        owner = Mutirao(company.url(MIGRATOR), schema="jobs")
        web = company.hire("company_enqueue", "enqueue", schema="jobs")
        with psycopg.connect(dsn(web)) as caller:
            handle = task.using(conn=caller).enqueue()
        async with working(worker):
            assert (await ended(owner, handle.id)).state is JobState.SUCCEEDED
        await owner.aclose()
        await worker.aclose()
        company.administer('REVOKE USAGE ON SCHEMA "jobs" FROM company_enqueue')
        with (
            psycopg.connect(dsn(web)) as caller,
            pytest.raises(StoreUnavailable, match="mutirao schema --grants"),
        ):
            task.using(conn=caller).enqueue()


def _nothing() -> None: ...
