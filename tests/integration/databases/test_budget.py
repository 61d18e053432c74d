"""`connections`: so many to servers at most, of all databases of a process together."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator

import pytest

from mutirao import Job, Mutirao
from mutirao.errors import ConfigurationError, StoreBusy
from mutirao.sql.connections.budget import CONNECTIONS_EACH, Budget
from tests.integration.databases.kit import Company
from tests.support.postgresql import PostgresServer
from tests.support.waiting import until


@pytest.fixture
def names(postgres: PostgresServer, migrated_template: str) -> Iterator[list[str]]:
    """The names of three databases on a server."""
    with (
        postgres.database(migrated_template) as one,
        postgres.database(migrated_template) as two,
        postgres.database(migrated_template) as three,
    ):
        yield [one, two, three]


@pytest.fixture
async def company(postgres: PostgresServer, names: list[str]) -> AsyncIterator[Company]:
    """An application of these."""
    made = Company(*map(postgres.url, names))
    yield made
    await made.close()


class Watcher:
    """Counts how many connections the three databases have, in a thread, until it is closed."""

    def __init__(self, postgres: PostgresServer, names: list[str]) -> None:
        self._over = threading.Event()
        self.most = 0
        listed = ", ".join(f"'{name}'" for name in names)
        self._sql = f"SELECT count(*) FROM pg_stat_activity WHERE datname IN ({listed})"  # noqa: S608
        self._admin = postgres.connect()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def _watch(self) -> None:
        while not self._over.wait(0.005):
            row = self._admin.execute(self._sql.encode()).fetchone()
            self.most = max(self.most, int(row[0]) if row else 0)

    def close(self) -> None:
        """Stop counting."""
        self._over.set()
        self._thread.join()
        self._admin.close()


async def test_never_more(company: Company, postgres: PostgresServer, names: list[str]) -> None:
    """With transactions in all databases at once, in coroutines and threads, all jobs are done."""

    @company.app.task
    async def wait(job: Job) -> None:
        async with job.transaction():
            await asyncio.sleep(0)

    @company.app.task
    def plain(job: Job) -> None:
        with job.transaction():
            pass

    for url in company.listed:
        await company.enqueue(url, "wait", 20)
        await company.enqueue(url, "plain", 20)
        await company.store(url).close()
    most = CONNECTIONS_EACH * len(names) + 3
    watcher = Watcher(postgres, names)
    async with company.worker(concurrency=20, connections=most) as worker:

        async def done() -> bool:
            jobs = [job for url in company.listed for job in await company.jobs(url)]
            return all(job.finished_at for job in jobs)

        # Looking has connections of its own, so that it comes last.
        await until(lambda: watcher.most >= most - 1)
        await asyncio.to_thread(watcher.close)
        assert watcher.most <= most
        await until(done)
        assert worker.health().alive


async def test_too_few(
    company: Company, caplog: pytest.LogCaptureFixture, postgres: PostgresServer
) -> None:
    """The databases for which there are enough are served; of the others it is said."""
    for url in company.listed:
        await company.enqueue(url, "note")
    async with company.worker(connections=2 * CONNECTIONS_EACH + 1):
        await until(lambda: len(company.ran) == 2)
        await until(lambda: "connections are 5: 2 databases have 2 each" in caplog.text)
        left = [url for url in company.listed if not await company.workers(url)]
        assert len(left) == 1
        company.listed = left  # when others have gone there are enough
        await until(lambda: len(company.ran) == 3)


async def test_of_one_database(company: Company) -> None:
    """A worker of the application's own database has a budget, too."""
    app = Mutirao(company.listed[0])
    done = asyncio.Event()

    @app.task
    async def wait(job: Job) -> None:
        async with job.transaction():
            pass
        done.set()

    async with app.worker(connections=3):
        await wait.aenqueue()
        await asyncio.wait_for(done.wait(), 60)
    await app.aclose()


def test_least(company: Company) -> None:
    """A database needs three."""
    with pytest.raises(ConfigurationError, match="connections is 2; give 3 or more"):
        company.app.worker(connections=2)


async def test_who_waits_longest() -> None:
    """A connection that comes back goes to the first who waits; who gave up is passed over."""
    budget = Budget(4)
    share = budget.join()
    taken = [await share.for_transaction(), await share.for_transaction()]
    gone = asyncio.create_task(share.for_transaction())
    first = asyncio.create_task(share.for_transaction())
    second = asyncio.create_task(share.for_transaction())
    await asyncio.sleep(0)
    gone.cancel()
    await asyncio.wait((gone,))
    taken.pop()()
    give_back = await first
    assert not second.done()
    give_back()
    (await second)()
    taken.pop()()
    for _ in range(2):
        await share.for_transaction()
    with pytest.raises(StoreBusy, match="--connections"):
        await share.for_transaction(0.01)


def test_listeners() -> None:
    """They leave at least one connection of the common ones to others, and a fourth of many."""
    few, many = Budget(6), Budget(24)
    few.expect(2)
    many.expect(8)
    assert [few.join().may_listen() for _ in range(2)] == [True, False]
    assert [many.join().may_listen() for _ in range(8)].count(True) == 6


async def test_all_comes_back() -> None:
    """What a database had is free again when it is left, once."""
    budget = Budget(CONNECTIONS_EACH + 1)
    share = budget.join()
    assert not share.may_listen()
    with pytest.raises(ConfigurationError, match="another database needs 2"):
        budget.join()
    share.leave()
    share.leave()
    other = budget.join()
    give_back = await other.for_transaction()
    assert not budget.take()
    give_back()
