"""One worker serves two databases of a MariaDB server, as it does others."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from sqlalchemy import text

from mutirao import Job, JobState
from mutirao.sql import migrations
from tests.integration.databases.kit import Company, shown
from tests.support.mariadb import MysqlServer
from tests.support.waiting import until


@pytest.fixture
async def company(mysql: MysqlServer) -> AsyncIterator[Company]:
    """Two databases of one server."""
    names = [mysql.create_database() for _ in range(2)]
    urls = [mysql.url(name) for name in names]
    for url in urls:
        migrations.upgrade(url)
    made = Company(*urls)
    yield made
    await made.close()
    for name in names:
        mysql.drop_database(name)


async def test_jobs_of_both(company: Company) -> None:
    """Coroutines and functions of both, whose transactions are those of the job's own database."""
    found: list[tuple[str, str]] = []

    @company.app.task
    async def look(job: Job) -> None:
        async with job.transaction() as session:
            found.append((job.database, await session.scalar(text("SELECT database()"))))

    @company.app.task
    def plain(job: Job) -> None:
        with job.transaction() as session:
            found.append((job.database, session.scalar(text("SELECT database()"))))

    for url in company.listed:
        await company.enqueue(url, "look", 2)
        await company.enqueue(url, "plain", 2)
    async with company.worker():
        await until(lambda: len(found) == 8)
    names = {shown(url): url.rpartition("/")[2] for url in company.listed}
    assert sorted(found) == sorted((name, names[name]) for name in names for _ in range(4))
    for url in company.listed:
        assert [job.state for job in await company.jobs(url)] == [JobState.SUCCEEDED] * 4
        assert await company.workers(url) == []
