"""`mutirao.integrations.litestar`: the plugin, its commands, and sessions of advanced-alchemy."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from advanced_alchemy.extensions.litestar import SQLAlchemyAsyncConfig, SQLAlchemyPlugin
from click.testing import CliRunner
from litestar import Litestar, post
from litestar.cli._utils import LitestarEnv
from litestar.cli.main import litestar_group
from litestar.di import NamedDependency
from litestar.exceptions import ClientException
from litestar.params import FromPath
from litestar.testing import TestClient
from sqlalchemy.ext.asyncio import AsyncSession

from mutirao import Mutirao
from mutirao.integrations.litestar import MutiraoPlugin
from tests.support.served import Served
from tests.support.waiting import wait_until

PROGRAMS = Path(__file__).parent / "programs"


@pytest.fixture
def jobs(migrated_sqlite_url: str) -> Mutirao:
    """Jobs with a task."""
    jobs = Mutirao(migrated_sqlite_url)
    jobs.task(name="count")(count)
    return jobs


def count(number: int) -> int:
    """Count."""
    return number


def test_a_worker_runs_while_it_serves(jobs: Mutirao) -> None:
    """And ends with it; other lifespans are entered, too."""
    plugin = MutiraoPlugin(jobs, worker=True, concurrency=2)
    web = Litestar(plugins=[plugin])
    with TestClient(web):
        assert plugin.lifespan.health().alive
    assert not plugin.lifespan.health().alive
    assert web.plugins.get(MutiraoPlugin).jobs is jobs


def test_the_session_of_a_request(jobs: Mutirao, migrated_sqlite_url: str) -> None:
    """That of advanced-alchemy commits before the answer; what is refused leaves no job."""

    @post("/{number:int}")
    async def place(number: FromPath[int], db_session: NamedDependency[AsyncSession]) -> None:
        await jobs.tasks["count"].using(conn=db_session).aenqueue(number=number)
        if number == 2:
            raise ClientException("two is refused")

    url = migrated_sqlite_url.replace("sqlite", "sqlite+aiosqlite")
    config = SQLAlchemyAsyncConfig(connection_string=url, before_send_handler="autocommit")
    web = Litestar([place], plugins=[SQLAlchemyPlugin(config=config), MutiraoPlugin(jobs)])
    with TestClient(web) as client:
        statuses = [client.post(f"/{number}").status_code for number in (1, 2, 3)]
    assert statuses == [201, 400, 201]
    assert sorted(job.args["number"] for job in jobs.jobs()) == [1, 3]
    jobs.close()


def test_commands(jobs: Mutirao) -> None:
    """`litestar mutirao list` needs no name of an application."""
    web = Litestar(plugins=[MutiraoPlugin(jobs)])
    env = LitestarEnv(app_path="shop:web", app=web, cwd=Path())
    said = CliRunner().invoke(
        litestar_group, ["mutirao", "enqueue", "count", '{"number": 3}'], obj=env
    )
    assert "enqueued job 1 (count)" in said.output
    jobs.close()


@pytest.mark.repeats(decided="tests/integration/frameworks/test_flask.py")
def test_workers_beside_the_server(tmp_path: Path, migrated_file: Path) -> None:
    """Started by `litestar mutirao worker`, two of them, and `litestar run` serves."""
    shutil.copy(PROGRAMS / "market.py", tmp_path)
    shutil.copy(migrated_file, tmp_path / "jobs.db")
    url = f"sqlite+aiosqlite:///{tmp_path}/jobs.db"
    market = Served(tmp_path, tmp_path, MARKET=url)
    litestar = ("litestar", "--app", "market:web")
    with (
        market.running(*litestar, "run", "--port", "PORT"),
        market.running(*litestar, "mutirao", "worker", "--processes", "2"),
    ):
        wait_until(lambda: market.answers("/health"))
        assert market.ask("/fruits/3", {}) == (201, {"id": 1})
        jobs = Mutirao(url)
        assert jobs.result(1, timeout=60).startswith("3 kg")
        jobs.close()
