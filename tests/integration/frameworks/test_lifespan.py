"""`app.lifespan()`: what a web application holds while its server serves."""

from __future__ import annotations

import os
import signal
import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from mutirao import JobState, Mutirao
from mutirao.errors import ConfigurationError, SchemaMissing
from tests.support.served import Served
from tests.support.waiting import soon, until, wait_until

PROGRAM = Path(__file__).parent / "programs" / "reloaded.py"


async def test_it_opens_nothing(sqlite_url: str, tmp_path: Path) -> None:
    """Without a worker, until somebody needs it: not even the file of the database is made."""
    app = Mutirao(sqlite_url)
    before, lifespan = ours(), app.lifespan()
    async with lifespan:
        assert "no worker was asked for" in f"{lifespan.health().reason}"
    assert os.listdir(tmp_path) == []
    assert ours() == before


async def test_it_closes_everything(migrated_postgresql_url: str) -> None:
    """Connections of coroutines, those of plain functions, and those of administration."""
    app, other = Mutirao(migrated_postgresql_url), Mutirao(migrated_postgresql_url)

    @app.task
    async def nothing() -> None:
        pass

    async def connections() -> int:
        engine = other._engines.asynchronous(alone=True)
        async with engine.connect() as conn:
            found = await conn.exec_driver_sql(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
                " AND pid <> pg_backend_pid()"
            )
            return int(found.scalar_one())

    async def gone(number: int) -> bool:  # a session is counted until its process has ended
        return await connections() == number

    before = await connections()
    async with app.lifespan():
        await nothing.aenqueue()
        nothing.enqueue()
        assert app.jobs()
        assert await connections() > before + 2
    assert await until(lambda: gone(before))
    await other.aclose()


async def test_a_worker_runs_meanwhile(migrated_sqlite_url: str) -> None:
    """And its health is told, before and afterwards."""
    app = Mutirao(migrated_sqlite_url)

    @app.task(keep_result=True)
    async def answer() -> int:
        return 42

    lifespan = app.lifespan(worker=True, concurrency=2)
    for _ in range(2):  # tests of an application begin it again
        async with lifespan:
            assert lifespan.health().alive
            handle = await answer.aenqueue()
            assert await soon(handle.aresult()) == 42
        assert not lifespan.health().alive


def test_it_is_a_lifespan_itself(migrated_sqlite_url: str) -> None:
    """Starlette, which calls it with the application, takes it as it is."""
    app = Mutirao(migrated_sqlite_url)
    app.task(name="nothing")(lambda: None)
    lifespan = app.lifespan(worker=True)
    with TestClient(Starlette(lifespan=lifespan)):
        assert lifespan.health().alive
    assert not lifespan.health().alive


async def test_a_worker_that_cannot_start(sqlite_url: str) -> None:
    """The web application does not start either, and nothing stays open."""
    app = Mutirao(sqlite_url)
    app.task(name="nothing")(lambda: None)
    with pytest.raises(SchemaMissing):
        await app.lifespan(worker=True).__aenter__()
    assert app._engines._sync == {}


def test_settings_without_a_worker(sqlite_url: str) -> None:
    """They would do nothing, so somebody has forgotten something."""
    with pytest.raises(ConfigurationError, match="concurrency and no worker; say worker=True"):
        Mutirao(sqlite_url).lifespan(concurrency=3)


def test_code_is_reloaded(migrated_file: Path, tmp_path: Path) -> None:
    """By uvicorn: what runs is given back without an attempt, and the new code runs it."""
    served = program(migrated_file, tmp_path)
    with served.running("uvicorn", "reloaded:web", "--reload", "--port", "PORT"):
        wait_until(lambda: served.answers("/none", 404))
        [first] = workers(tmp_path)
        assert served.ask("/jobs", {}) == (200, {"id": 1})
        wait_until(lambda: state(tmp_path) == (JobState.RUNNING, 1))
        code = tmp_path / "reloaded.py"
        # Longer: Python knows compiled code by the size and the whole second of its source.
        code.write_text(code.read_text().replace("VERSION = 1", "VERSION = 1000"))
        wait_until(lambda: state(tmp_path) == (JobState.SUCCEEDED, 1))
        [second] = workers(tmp_path)
        assert first != second
    assert workers(tmp_path) == {}


@pytest.mark.repeats(decided="tests/integration/frameworks/test_lifespan.py")
def test_several_processes_of_a_server(migrated_file: Path, tmp_path: Path) -> None:
    """Each has a worker; that of one that is killed is not missed, and the server starts another.

    Its job runs again elsewhere, and that was an attempt.
    """
    served = program(migrated_file, tmp_path)
    with served.running("uvicorn", "reloaded:web", "--workers", "2", "--port", "PORT"):
        wait_until(lambda: served.answers("/none", 404) and len(workers(tmp_path)) == 2)
        assert served.ask("/jobs", {}) == (200, {"id": 1})
        wait_until(lambda: state(tmp_path) == (JobState.RUNNING, 1))
        before = workers(tmp_path)
        runs = query(tmp_path, "SELECT worker FROM mutirao_live WHERE id = 1")[0][0]
        os.kill(before[runs], signal.SIGKILL)
        wait_until(lambda: state(tmp_path) == (JobState.RUNNING, 2))
        wait_until(lambda: len(workers(tmp_path)) == 2 and runs not in workers(tmp_path))
    assert workers(tmp_path) == {}


def ours() -> set[threading.Thread]:
    """Return our threads."""
    return {each for each in threading.enumerate() if "mutirao" in each.name}


def program(migrated: Path, home: Path) -> Served:
    """Return the program, in a directory with a database of its own."""
    (home / "jobs.db").write_bytes(migrated.read_bytes())
    (home / "reloaded.py").write_text(PROGRAM.read_text())
    return Served(home, home, JOBS=f"sqlite:///{home}/jobs.db")


def workers(home: Path) -> dict[int, int]:
    """Return the process of each registered worker."""
    rows = query(home, "SELECT id, name FROM mutirao_workers")
    return {id: int(name.rpartition(":")[2]) for id, name in rows}


def state(home: Path) -> tuple[JobState, int]:
    """Return the state of the first job, and the number of its attempt."""
    [(found, attempt)] = query(home, "SELECT state, attempt FROM mutirao_jobs WHERE id = 1")
    return JobState(found), attempt


def query(home: Path, sql: str) -> list[Any]:
    """Ask the database of the program."""
    with closing(sqlite3.connect(home / "jobs.db", timeout=30)) as db:
        return db.execute(sql).fetchall()
