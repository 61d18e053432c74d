"""`job.tenant_connection()`: the work of a job in the database of its tenant."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import Connection, create_engine, text

from mutirao import Job, JobState, Mutirao, OutcomeKind, Retry
from mutirao.errors import ConfigurationError, WrongState
from mutirao.model.jobs.job import Claim, Job as ModelJob
from mutirao.sql.connections.tenants import Tenants
from mutirao.testing import capture, drain, inline
from tests.integration.worker.kit import ended, working

NEVER_RETRY = Retry.never()


@pytest.fixture
async def shop(lite_url: str) -> AsyncIterator[Mutirao]:
    """An application that keeps its jobs in one place."""
    made = Mutirao(lite_url, retry=NEVER_RETRY)
    yield made
    await made.aclose()
    made.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def tenant_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a tenant's database, with a table of its own."""
    url = f"sqlite:///{tmp_path / 'tenant.db'}"
    if request.param == "postgresql":
        url = request.getfixturevalue("postgresql_url")
    engine = create_engine(url)
    with engine.begin() as conn:
        conn.execute(text("CREATE TABLE sold (number integer PRIMARY KEY)"))
    engine.dispose()
    return url


def sold(url: str) -> list[int]:
    """Return what the tenant has."""
    engine = create_engine(url)
    with engine.connect() as conn:
        found = [row[0] for row in conn.execute(text("SELECT number FROM sold ORDER BY number"))]
    engine.dispose()
    return found


INSERT = text("INSERT INTO sold VALUES (:number)")


async def test_coroutines_and_threads(shop: Mutirao, tenant_url: str) -> None:
    """Both write there, each in its way; an error rolls back."""
    shop.tenant_database(lambda job: tenant_url)

    @shop.task
    async def wait(job: Job, number: int) -> None:
        async with job.tenant_connection() as conn:
            await conn.execute(INSERT, {"number": number})

    @shop.task
    def plain(job: Job, number: int, fails: bool = False) -> None:
        with job.tenant_connection() as conn:
            assert isinstance(conn, Connection)
            conn.execute(INSERT, {"number": number})
            if fails:
                raise ValueError("not that one")

    handles = [
        await wait.aenqueue(number=1),
        await plain.aenqueue(number=2),
        await plain.aenqueue(number=3, fails=True),
    ]
    async with working(shop):
        states = [(await ended(shop, each.id)).state for each in handles]
    assert states == [JobState.SUCCEEDED, JobState.SUCCEEDED, JobState.DEAD]
    assert sold(tenant_url) == [1, 2]


async def test_both_transactions(shop: Mutirao, tenant_url: str) -> None:
    """The tenant's commit comes first; if the job's own fails then, the tenant's stays."""
    shop.tenant_database(lambda job: tenant_url)

    @shop.task
    async def both(job: Job, number: int) -> None:
        async with job.transaction():
            async with job.tenant_connection() as conn:
                await conn.execute(INSERT, {"number": number})
            raise ValueError("after the tenant's commit")

    handle = await both.aenqueue(number=1)
    async with working(shop):
        assert (await ended(shop, handle.id)).state is JobState.DEAD
    assert sold(tenant_url) == [1]


async def test_a_coroutine_finds_it(shop: Mutirao, tenant_url: str) -> None:
    """It may ask a database; a plain handler cannot wait for it, and is told so."""

    @shop.tenant_database
    async def database_of(job: Job) -> str:
        return tenant_url

    @shop.task
    async def wait(job: Job) -> None:
        async with job.tenant_connection() as conn:
            await conn.execute(INSERT, {"number": 1})

    @shop.task
    def plain(job: Job) -> None:
        with job.tenant_connection():
            pass

    waits, fails = await wait.aenqueue(), await plain.aenqueue()
    async with working(shop):
        assert (await ended(shop, waits.id)).state is JobState.SUCCEEDED
        assert "make one of them like the other" in str((await ended(shop, fails.id)).error)


async def test_credentials_are_not_logged(
    shop: Mutirao, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither where the database is away, nor where its URL is none."""
    urls = iter(["postgresql+psycopg://shop:hunter2@127.0.0.1:1/shop", "hunter2 is no URL", 7])
    shop.tenant_database(lambda job: next(urls))

    @shop.task
    def plain(job: Job) -> None:
        with job.tenant_connection():
            pass

    with caplog.at_level(logging.DEBUG):
        async with working(shop, concurrency=1):
            errors = [
                (await ended(shop, (await plain.aenqueue()).id)).error or "" for _ in range(3)
            ]
    assert "hunter2" not in caplog.text
    assert not any("hunter2" in error for error in errors)
    assert "no valid URL for job 2" in errors[1]
    assert "returned int for job 3" in errors[2]


async def test_where_there_is_none(shop: Mutirao) -> None:
    """Without a function, the handler is told how to register one."""

    @shop.task
    async def wait(job: Job) -> None:
        async with job.tenant_connection():
            pass

    handle = await wait.aenqueue()
    async with working(shop):
        assert "@app.tenant_database" in str((await ended(shop, handle.id)).error)


def test_in_tests(shop: Mutirao, tenant_url: str) -> None:
    """`inline` and `drain` have it, too."""
    shop.tenant_database(lambda job: tenant_url)

    @shop.task
    def plain(job: Job, number: int) -> None:
        with job.tenant_connection() as conn:
            conn.execute(INSERT, {"number": number})

    with inline(shop):
        plain.enqueue(number=1)
    with capture(shop):
        plain.enqueue(number=2)
        assert drain(shop)[OutcomeKind.SUCCEEDED] == 1
    assert sold(tenant_url) == [1, 2]


def job_of(tenant: str) -> ModelJob:
    """Return a job of a tenant."""
    values = dict.fromkeys(Claim._fields)
    claim = Claim(**{**values, "id": 1, "task": "t", "key": tenant})  # type: ignore[arg-type]

    def begin(*_: object) -> None:
        raise AssertionError

    return ModelJob(claim, 1, None, begin)  # type: ignore[arg-type]


def test_answers_expire(tmp_path: Path) -> None:
    """With `by` an answer is good for so long, and for its tenant; without, for one time."""
    asked: list[str | None] = []
    now = [0.0]

    def resolve(job: ModelJob) -> str:
        asked.append(job.key)
        return f"sqlite:///{tmp_path / str(job.key)}.db"

    tenants = Tenants(resolve, lambda job: job.key, 60.0, clock=lambda: now[0])
    for tenant in ("a", "b", "a"):
        tenants.find(job_of(tenant))
    assert asked == ["a", "b"]
    now[0] = 60.0
    tenants.find(job_of("a"))
    assert asked == ["a", "b", "a"]
    each_time = Tenants(resolve, None, 60.0)
    each_time.find(job_of("a"))
    each_time.find(job_of("a"))
    assert asked[3:] == ["a", "a"]


def test_asked_again_after_a_failure(tmp_path: Path) -> None:
    """A database that could not be entered may have moved."""
    answers = iter([tmp_path / "gone.db", tmp_path / "here.db"])
    (tmp_path / "here.db").touch()
    tenants = Tenants(lambda job: f"sqlite:///{next(answers)}", lambda job: job.key, 60.0)
    with pytest.raises(ConfigurationError, match="not there"), tenants.open(job_of("a")):
        pass
    once = tenants.open(job_of("a"))
    with once as conn:
        conn.execute(text("SELECT 1"))
    with pytest.raises(WrongState, match="entered before"):
        once.__enter__()


def test_for_no_time(shop: Mutirao) -> None:
    """That is refused where it is given."""
    with pytest.raises(ConfigurationError, match="more than 0 seconds"):
        shop.tenant_database(expires=0)
