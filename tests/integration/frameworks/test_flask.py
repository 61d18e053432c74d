"""`mutirao.integrations.flask`: handlers in the application's context, commands, its session."""

from __future__ import annotations

import re
import shutil
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from flask import Flask, current_app, g
from flask_sqlalchemy import SQLAlchemy
from sqlalchemy import make_url

from mutirao import Mutirao
from mutirao.errors import ConfigurationError
from mutirao.integrations.flask import FlaskMutirao
from mutirao.testing import drain, inline
from tests.support.served import Served
from tests.support.waiting import soon, wait_until

PROGRAMS = Path(__file__).parent / "programs"


@pytest.fixture
def web(migrated_sqlite_url: str) -> Flask:
    """An application that says where the jobs are."""
    web = Flask(__name__)
    web.config["MUTIRAO_URL"] = migrated_sqlite_url
    return web


@pytest.fixture
def jobs(web: Flask) -> Iterator[FlaskMutirao]:
    """Its jobs."""
    jobs = FlaskMutirao()
    jobs.init_app(web)
    yield jobs
    jobs.close()


def test_it_is_an_extension(web: Flask, jobs: FlaskMutirao, migrated_sqlite_url: str) -> None:
    """Found where Flask keeps them; the database is that of the configuration."""
    assert web.extensions["mutirao"] is jobs
    assert jobs.database == migrated_sqlite_url


async def test_a_context_for_each_attempt(web: Flask, jobs: FlaskMutirao) -> None:
    """Of plain functions and of coroutines: what one leaves in `g` no other one finds."""

    @jobs.task(keep_result=True)
    def plain() -> list[Any]:
        return [current_app.name, g.setdefault("seen", len(g.__dict__))]

    @jobs.task(keep_result=True)
    async def coroutine() -> list[Any]:
        return [current_app.name, g.setdefault("seen", len(g.__dict__))]

    async with jobs.lifespan(worker=True):
        with web.app_context():  # which the handlers do not share
            g.seen = "by others"
            for task in (plain, plain, coroutine, coroutine):
                handle = await task.aenqueue()
                assert await soon(handle.aresult()) == [web.name, 0]


@pytest.mark.parametrize("testing", [True, False])
def test_a_test_and_its_handlers(web: Flask, jobs: FlaskMutirao, testing: bool) -> None:
    """With TESTING they share the context, and so Flask-SQLAlchemy's session: one transaction."""
    web.config["SQLALCHEMY_DATABASE_URI"] = web.config["MUTIRAO_URL"]
    web.testing = testing
    db = SQLAlchemy(web)
    sessions = []

    @jobs.task
    def look() -> None:
        sessions.append(db.session())

    with web.app_context():
        look.using(conn=db.session).enqueue()
        drain(jobs, conn=db.session)
        with inline(jobs):
            look.enqueue()
        assert [each is db.session() for each in sessions] == [testing, testing]
        db.session.rollback()
        db.engine.dispose()
    assert jobs.jobs() == []


def test_no_application(migrated_sqlite_url: str) -> None:
    """The attempt fails, and the error says what to do."""
    jobs = FlaskMutirao(migrated_sqlite_url)
    jobs.app_factory("os:getcwd")
    jobs.task(name="nothing")(lambda: None)
    with inline(jobs), pytest.raises(ConfigurationError, match=r"no Flask application.*os:getcwd"):
        jobs.tasks["nothing"].enqueue()


def test_commands(web: Flask, jobs: FlaskMutirao) -> None:
    """`flask mutirao list` needs no name of an application, and its help shows none."""
    jobs.task(name="bake")(lambda: None)
    flask = web.test_cli_runner()
    enqueued = flask.invoke(args=["mutirao", "enqueue", "bake"])
    assert "enqueued job 1 (bake)" in enqueued.output
    assert "bake" in flask.invoke(args=["mutirao", "list", "state:ready"]).output
    assert "mutirao show [OPTIONS] ID" in flask.invoke(args=["mutirao", "show", "--help"]).output
    refused = flask.invoke(args=["mutirao", "show", "7"])
    assert (refused.exit_code, "7" in refused.output) == (1, True)


def test_handlers_of_each_kind(tmp_path: Path, migrated_file: Path) -> None:
    """Started by `flask mutirao worker`, also as one of several: thread, loop and child."""
    bakery = program("bakery", tmp_path, migrated_file, "BAKERY")
    flask = ("flask", "--app", "bakery:create_app")
    with (
        bakery.running(*flask, "run", "--port", "PORT"),
        bakery.running(*flask, "mutirao", "worker", "--processes", "2", "-c", "2"),
    ):
        wait_until(lambda: bakery.answers("/static/none", 404))
        for number, task in enumerate(("in_thread", "in_loop", "in_child"), 1):
            assert bakery.ask(f"/loaves/{task}", {}) == (200, {"id": number})
        assert [re.sub(r"[\d-]+", "N", each) for each in results(tmp_path, 3)] == [
            "rye in mutiraoN",
            "rye in loop",
            "rye in N",
        ]


def test_a_worker_that_knows_no_flask(tmp_path: Path, migrated_file: Path) -> None:
    """Started by `mutirao worker`: the factory is called where a handler needs the application."""
    bakery = program("bakery", tmp_path, migrated_file, "BAKERY")
    with closing(sqlite3.connect(tmp_path / "jobs.db")) as db, db:
        db.execute("INSERT INTO loaf VALUES (7, NULL)")
        for task in ("in_thread", "in_child"):
            db.execute(
                "INSERT INTO mutirao_job (task, args) VALUES (?, ?)", (task, '{"loaf_id": 7}')
            )
    url = f"sqlite:///{tmp_path}/jobs.db"
    with bakery.running("mutirao", "worker", "bakery:jobs", "--database", url):
        assert [each.split(" in ")[0] for each in results(tmp_path, 2)] == ["rye", "rye"]


def results(home: Path, count: int) -> list[str]:
    """Return what so many jobs have returned, once they have."""
    jobs = Mutirao(f"sqlite:///{home}/jobs.db")
    try:
        return [jobs.result(id, timeout=60) for id in range(1, count + 1)]
    finally:
        jobs.close()


@pytest.mark.repeats(decided="tests/integration/service/test_embedded.py")
def test_processes_that_were_forked_later(migrated_postgresql_url: str, tmp_path: Path) -> None:
    """gunicorn's `--preload`: connections that were open before are not used by the children."""
    preloaded = Served(PROGRAMS, tmp_path, JOBS=migrated_postgresql_url)
    plain = make_url(migrated_postgresql_url).set(drivername="postgresql")
    dsn = plain.render_as_string(hide_password=False)
    serve = ("gunicorn", "--preload", "-w", "2", "--threads", "4", "-b", "127.0.0.1:PORT")
    with (
        psycopg.connect(dsn, autocommit=True) as watch,
        preloaded.running(*serve, "preloaded:web"),
        ThreadPoolExecutor(8) as clients,
    ):
        wait_until(lambda: preloaded.answers("/static/none", 404))
        before = sessions(watch)
        assert before
        answers = list(clients.map(lambda _: preloaded.ask("/jobs", {}), range(40)))
        after = sessions(watch)
    assert {status for status, _ in answers} == {200}
    assert max(said["jobs"] for _, said in answers) == 41
    assert {pid: after[pid] for pid in before} == before
    assert len(after) > len(before)


def sessions(watch: psycopg.Connection[Any]) -> dict[int, Any]:
    """Return when each other session of the database was asked something last."""
    rows = watch.execute(
        "SELECT pid, query_start FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    return dict(rows.fetchall())


def program(name: str, home: Path, migrated: Path, variable: str) -> Served:
    """Return one of the programs, in a directory with a database of its own."""
    shutil.copy(PROGRAMS / f"{name}.py", home)
    shutil.copy(migrated, home / "jobs.db")
    with closing(sqlite3.connect(home / "jobs.db")) as db:
        db.execute("CREATE TABLE loaf (id INTEGER PRIMARY KEY, baked TEXT)")
    return Served(home, home, **{variable: f"sqlite:///{home}/jobs.db"})
