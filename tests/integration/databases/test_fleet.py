"""One worker serves several databases, whose list may change; each waits by itself."""

from __future__ import annotations

import contextlib
import logging
import threading
from pathlib import Path

import pytest

from mutirao import JobState
from mutirao.errors import ConfigurationError, WorkerFailed
from mutirao.sql import migrations
from tests.integration.databases.conftest import Files
from tests.integration.databases.kit import Company, shown
from tests.support.engine import Fleet
from tests.support.postgresql import PostgresServer
from tests.support.waiting import until


async def test_jobs_of_all(company: Company, caplog: pytest.LogCaptureFixture) -> None:
    """Each job knows its database, whose log records name it; nobody is left registered."""
    ids = {url: await company.enqueue(url, "note", 3) for url in company.listed}
    with caplog.at_level(logging.INFO, "mutirao"):
        async with company.worker(log_jobs="all"):
            await until(lambda: len(company.ran) == 9)
    expected = {(shown(url), id) for url in company.listed for id in ids[url]}
    assert set(company.ran) == expected
    about = {(vars(r)["database"], vars(r)["job"]) for r in caplog.records if hasattr(r, "job")}
    assert about == expected
    for url in company.listed:
        assert [job.state for job in await company.jobs(url)] == [JobState.SUCCEEDED] * 3
        assert await company.workers(url) == []


async def test_one_comes_and_one_goes(company: Company) -> None:
    """What is new is served; what is not listed any more ends its jobs and signs off."""
    first, second, third = company.listed
    company.listed = [first, second]
    await company.enqueue(first, "hold")
    async with company.worker(grace=0.0):
        await until(lambda: company.running[shown(first)])
        company.listed = [second, third]
        await company.enqueue(third, "note")
        await until(lambda: [name for name, _ in company.ran if name == shown(third)])
        await company.enqueue(first, "note")
        await company.enqueue(second, "note")
        await until(lambda: [name for name, _ in company.ran if name == shown(second)])
        assert len(await company.workers(first)) == 1  # its job may end
        company.let_end()

        async def gone() -> bool:
            return not await company.workers(first)

        await until(gone)
        states = [job.state for job in await company.jobs(first)]
        assert states == [JobState.READY, JobState.SUCCEEDED]
        company.listed = [first]  # it may come back
        await until(lambda: len(company.ran) == 4)


async def test_a_later_version_takes_over(files: Files) -> None:
    """It ends once that serves each of its databases, and what it runs has ended."""
    one, other = files(2)
    old, new = Company(one, other), Company(one)
    await old.enqueue(one, "hold")
    working = old.worker(app_version="shop@1", drain_on_new_version=True)
    async with contextlib.AsyncExitStack() as workers:
        await workers.enter_async_context(working)
        # Both serve the first database: only one that starts later leaves the job to the old one.
        await until(lambda: old.running[shown(one)])
        await workers.enter_async_context(new.worker(app_version="shop@2"))
        fleet = working._worker
        assert isinstance(fleet, Fleet)
        await until(lambda: any(fleet._shared.deploys._stored.values()))
        assert not fleet.outdated.is_set()
        new.listed = [one, other]
        await fleet.outdated.wait()
        await new.enqueue(one, "note")
        await new.enqueue(other, "note")
        await until(lambda: len(new.ran) == 2)
        assert old.running[shown(one)]
        old.let_end()
        await fleet.ended.wait()
    assert [job.state for job in await old.jobs(one)] == [JobState.SUCCEEDED] * 2
    await old.close()
    await new.close()


async def test_a_coroutine_lists_them(company: Company) -> None:
    """The provider may wait for an answer without holding the loop."""
    one = company.listed[0]

    async def listed() -> list[str]:
        return [one]

    company.app.databases(listed)
    await company.enqueue(one, "note")
    async with company.worker():
        await until(lambda: company.ran)


async def test_none_is_listed(company: Company, caplog: pytest.LogCaptureFixture) -> None:
    """That is said, once, and what comes later is served."""
    listed, company.listed = company.listed, []
    async with company.worker():
        company.listed = listed
        await company.enqueue(listed[0], "note")
        await until(lambda: company.ran)
    assert caplog.text.count("the list of databases is empty") == 1


async def test_one_is_away(
    company: Company, postgres: PostgresServer, caplog: pytest.LogCaptureFixture
) -> None:
    """It waits by itself, before the start and later, and others are served; then it comes back."""
    file, _, server = company.listed
    name = server.rpartition("/")[2].partition("?")[0]
    await company.enqueue(server, "note")
    await company.store(server).close()
    with postgres.connect() as admin:
        admin.execute(_allow(name, False))
        async with company.worker():
            await company.enqueue(file, "note")
            await until(lambda: len(company.ran) == 1)
            admin.execute(_allow(name, True))
            await until(lambda: len(company.ran) == 2)
            admin.execute(_allow(name, False))
            admin.execute(_end(name))
            await company.enqueue(file, "note")
            await until(lambda: len(company.ran) == 3)
            admin.execute(_allow(name, True))
            await company.enqueue(server, "note")
            await until(lambda: len(company.ran) == 4)
    said = [r for r in caplog.records if "cannot be served" in r.getMessage()]
    assert len(said) == 1
    assert "secret" not in caplog.text


async def test_one_is_not_migrated(
    files: Files, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """That is said once; others are served, and so is this one when it has been migrated."""
    [good], bad = files(1), f"sqlite:///{tmp_path / 'bare.db'}"
    (tmp_path / "bare.db").touch()  # that there is no file is said in other words
    company = Company(bad, good)
    async with company.worker(heartbeat=0.02):
        for n in range(1, 4):  # while it is tried again
            await company.enqueue(good, "note")
            await until(lambda n=n: len(company.ran) == n)  # type: ignore[misc]
        migrations.upgrade(bad)
        await company.enqueue(bad, "note")
        await until(lambda: len(company.ran) == 4)
    said = [r.getMessage() for r in caplog.records if "cannot be served" in r.getMessage()]
    assert len(said) == 1
    assert "mutirao migrate" in said[0]
    await company.close()


async def test_the_list_fails(company: Company, caplog: pytest.LogCaptureFixture) -> None:
    """At the start that ends the worker; later those that are known are served, and it is said."""
    failing = [True]

    @company.app.databases
    def listed() -> list[str]:
        if failing:
            raise LookupError("no list today")
        return company.listed[:1]

    with pytest.raises(WorkerFailed, match="failed: LookupError: no list today"):
        async with company.worker():
            pass
    failing.clear()
    async with company.worker():
        failing.append(True)
        await until(lambda: "no list today" in caplog.text)
        await company.enqueue(company.listed[0], "note")
        await until(lambda: company.ran)
        failing.clear()
        await until(lambda: "can be read again" in caplog.text)
    assert caplog.text.count("the list of databases stays") == 1


@pytest.mark.parametrize(
    ("listed", "what"),
    [
        ("sqlite:///shop.db", "give a list"),
        ([7], "number 1 of the databases is given as int"),
        (["no url: hunter2"], "number 1 of the databases has no valid URL"),
        (["oracle://scott:tiger@host/shop"], "begins with 'oracle'"),
    ],
)
async def test_what_is_no_list(company: Company, listed: object, what: str) -> None:
    """The worker does not start, and says which entry is wrong, without what it has in it."""
    company.app.databases(lambda: listed)
    with pytest.raises(ConfigurationError, match=what) as refused:
        async with company.worker():
            pass
    assert "hunter2" not in str(refused.value)
    assert "tiger" not in str(refused.value)


async def test_all_slots_are_lost(files: Files) -> None:
    """That ends the worker of all: its process has no slots left for any database."""
    company = Company(*files(2))

    @company.app.task(timeout=0.05)
    def hang() -> None:
        hanging.acquire()

    hanging = threading.Semaphore(0)
    await company.enqueue(company.listed[0], "hang")
    worker = company.worker(concurrency=1, exit_when_stuck=0.05)
    with pytest.raises(WorkerFailed):
        async with worker:
            await worker.failed
    hanging.release()
    assert not worker.health().alive
    await company.close()


def _allow(name: str, allowed: bool) -> bytes:
    return f"ALTER DATABASE {name} ALLOW_CONNECTIONS {allowed}".encode()


def _end(name: str) -> bytes:
    ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = "
    return f"{ended}'{name}'".encode()
