"""MySQL Router between us and a server: each connection has a session of its own, or shares one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import URL, text

from mutirao import Job, Mutirao
from mutirao.model.jobs.job import JobState
from mutirao.sql import migrations
from tests.integration.cli.conftest import Shell, make_shop
from tests.integration.sessions.test_unfit_servers import COMMANDS, failure_of
from tests.support.mariadb import MysqlServer
from tests.support.mysql_router import connected, mysql_router
from tests.support.waiting import until


@pytest.fixture(scope="module")
def behind(real_mysql: MysqlServer) -> Iterator[str]:
    """The URL of an empty database, without a router."""
    name = real_mysql.create_database()
    yield real_mysql.url(name)
    real_mysql.drop_database(name)


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[URL], Shell]:
    """What makes an application on a database, with its command line."""
    return lambda url: make_shop(as_text(url), tmp_path, monkeypatch)


async def test_sessions_of_their_own(behind: str) -> None:
    """As without a router: tables, jobs, and their transactions."""
    with mysql_router(behind, shares=False) as front:
        migrations.upgrade(as_text(front))
        app = Mutirao(front)

        @app.task
        async def coroutine(job: Job) -> None:
            async with job.transaction() as session:
                await session.execute(text("SELECT 1"))

        @app.task
        def plain(job: Job) -> None:
            with job.transaction() as session:
                session.execute(text("SELECT 1"))

        await app.aenqueue_many([task.job() for task in (coroutine, plain) * 5])
        await plain.using(key="one").aenqueue()
        async with app.worker(poll=0.2, heartbeat=0.1):
            await until(lambda: states(app) == [JobState.SUCCEEDED] * 11)
        await app.aclose()


def states(app: Mutirao) -> list[JobState]:
    """Return the states of all jobs."""
    return [job.state for job in app.jobs(limit=None)]


def test_shared_sessions(behind: str, shop: Callable[[URL], Shell]) -> None:
    """They lack what says the number of a new row, and several statements in a packet."""
    migrations.upgrade(behind)
    with mysql_router(behind, shares=True) as front:
        assert len({*sessions(front)}) == 1
        shell = shop(front)
        for command in COMMANDS[1:]:
            said = failure_of(shell, command)
            assert "shares the sessions of a server among its connections" in said
            assert "without connection_sharing" in said


def sessions(front: URL) -> Iterator[int]:
    """Yield which session of the server each of three clients has, that are connected at once."""
    clients = [connected(front) for _ in range(3)]
    for client in clients:
        with client.cursor() as cursor:
            cursor.execute("SELECT connection_id()")
            yield cursor.fetchall()[0][0]
    for client in clients:
        client.close()


def as_text(url: URL) -> str:
    """Return a URL with its password."""
    return url.render_as_string(hide_password=False)
