"""Calls after a rest in which the server has closed the connections: each connects again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import Engine, create_engine, make_url, text

from mutirao import Job, JobState, Mutirao
from mutirao.errors import ConfigurationError, StoreUnavailable
from mutirao.sql.drivers import resting
from tests.integration.worker.kit import ended, working
from tests.support.mariadb import MysqlServer
from tests.support.other_sessions import OTHER_SESSIONS
from tests.support.postgresql import PostgresServer
from tests.support.waiting import wait_until

pytestmark = pytest.mark.repeats(
    "postgresql+psycopg2", "mysql+mysqldb", decided="tests/integration/troubles/test_rested.py"
)

DRIVERS = [
    *(f"postgresql+{driver}" for driver in ("psycopg", "psycopg2", "asyncpg")),
    *(f"mysql+{driver}" for driver in ("pymysql", "aiomysql", "mysqldb")),
]
END = {"postgresql": "SELECT pg_terminate_backend({})", "mysql": "KILL {}"}


class Ending:
    """Ends the sessions of others in a database."""

    def __init__(self, url: str) -> None:
        self._engine: Engine = create_engine(url, isolation_level="AUTOCOMMIT")
        self._kind = make_url(url).get_backend_name()

    def __call__(self) -> None:
        """End all of them, and wait until none is left."""
        ids = self.ids()
        assert ids
        with self._engine.connect() as connection:
            for each in ids:
                connection.execute(text(END[self._kind].format(each)))
        wait_until(lambda: not self.ids())
        # A backend of PostgreSQL is not shown any more before it closes its socket.
        wait_until(lambda: self._kind == "mysql" or not [each for each in ids if _runs(each)])

    def ids(self) -> list[int]:
        """Return which sessions there are."""
        with self._engine.connect() as connection:
            return list(connection.scalars(text(OTHER_SESSIONS[self._kind])))

    def close(self) -> None:
        """Close its own connections."""
        self._engine.dispose()


@pytest.fixture(params=DRIVERS)
async def rested(request: pytest.FixtureRequest) -> Any:
    """An application on each driver, a task of it, and what ends its sessions."""
    name = "migrated_" + request.param.partition("+")[0] + "_url"
    url = request.getfixturevalue(name)
    app, end = Mutirao(make_url(url).set(drivername=request.param)), Ending(url)

    def settings(number: int) -> Any:
        return {"connection": True} if number else {}

    async def step(job: Job, number: int = 0) -> None:
        async with job.transaction(**settings(number)):
            pass

    def plain(job: Job, number: int = 0) -> None:
        with job.transaction(**settings(number)):
            pass

    has_no_coroutines = request.param.endswith(("psycopg2", "mysqldb"))
    task = app.task(max_attempts=1)(plain if has_no_coroutines else step)
    yield app, task, end
    app.close()  # what plain calls opened
    await app.aclose()
    end.close()


def _runs(process: int) -> bool:
    return Path(f"/proc/{process}").exists()


def _sync(app: Mutirao, step: Any) -> list[Callable[[], Any]]:
    return [
        lambda: step.enqueue(),
        lambda: app.job(step.enqueue().id),
        lambda: app.enqueue_many([step.job(n) for n in range(3)]),
        lambda: app.jobs(),
        lambda: step.using(key="k", on_conflict="replace").enqueue(),
        lambda: app.cancel(1),
    ]


def _asynchronous(app: Mutirao, step: Any) -> list[Callable[[], Awaitable[Any]]]:
    return [
        lambda: step.aenqueue(),
        lambda: app.ajob(1),
        lambda: app.aenqueue_many([step.job(n) for n in range(3)]),
        lambda: app.ajobs(),
        lambda: step.using(key="k", on_conflict="replace").aenqueue(),
        lambda: app.acancel(1),
    ]


async def test_the_first_call_after_a_rest(rested: Any) -> None:
    """None is told of it, whatever it does; several connections rested."""
    app, step, end = rested
    calls = _asynchronous(app, step)
    for call in calls:
        for each in calls:
            await each()
        end()
        await call()


def test_the_first_call_of_a_plain_program(request: pytest.FixtureRequest, rested: Any) -> None:
    """The same, for drivers that have a synchronous form."""
    app, step, end = rested
    if request.node.callspec.params["rested"].endswith("asyncpg"):
        with pytest.raises(ConfigurationError, match="no synchronous form"):
            step.enqueue()
        return
    calls = _sync(app, step)
    for call in calls:
        for each in calls:
            each()
        end()
        call()


async def test_a_worker_whose_connections_rested(rested: Any) -> None:
    """It opens others, and does the next jobs at their first attempt, in transactions, too."""
    app, step, end = rested
    async with working(app, poll=0.2):
        for number in (0, 1):
            first = await step.aenqueue(number)
            assert (await ended(app, first.id)).state is JobState.SUCCEEDED
            end()
            second = await step.aenqueue(number)
            assert (await ended(app, second.id)).state is JobState.SUCCEEDED


def test_a_look_keeps_the_interpreters_lock(
    migrated_postgresql_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """psycopg's connections are read: `poll` gives the lock up, so that each look wakes a thread.

    With sixteen threads that enqueue, `poll` made the calls of a process a fifth longer.
    """
    monkeypatch.delattr(resting, "_is_at_end")
    url = make_url(migrated_postgresql_url).set(drivername="postgresql")
    with psycopg.connect(url.render_as_string(hide_password=False)) as connection:
        assert not resting.is_closed(connection)


ENDS = """
CREATE FUNCTION ends() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER ends AFTER INSERT ON mutirao_job {} FOR EACH ROW EXECUTE FUNCTION ends()
"""
AT_ONCE, AT_THE_COMMIT = "NOT DEFERRABLE", "DEFERRABLE INITIALLY DEFERRED"


@pytest.mark.parametrize("driver", ["psycopg", "psycopg2", "asyncpg"])
@pytest.mark.parametrize(
    ("number", "when", "says"),
    [
        (1, AT_ONCE, "whether it was committed is not known"),
        (2, AT_ONCE, "nothing of it was committed, so it may be repeated"),
        (2, AT_THE_COMMIT, "whether it was committed is not known"),
    ],
)
async def test_what_is_lost_under_way(
    migrated_postgresql_url: str, driver: str, number: int, when: str, says: str
) -> None:
    """The error says whether it may be repeated, where that is known."""
    engine = create_engine(migrated_postgresql_url)
    with engine.begin() as connection:
        connection.execute(text(ENDS.format(when)))
    engine.dispose()
    app = Mutirao(make_url(migrated_postgresql_url).set(drivername=f"postgresql+{driver}"))

    @app.task
    def step() -> None: ...

    jobs = [step.job() for _ in range(number)]
    with pytest.raises(StoreUnavailable, match=says):
        await (step.aenqueue() if number == 1 else app.aenqueue_many(jobs))
    if driver != "asyncpg":
        with pytest.raises(StoreUnavailable, match=says):
            step.enqueue() if number == 1 else app.enqueue_many(jobs)
    app.close()  # what plain calls opened
    await app.aclose()


async def test_idle_sessions_of_postgresql(
    migrated_postgresql_url: str, postgres: PostgresServer
) -> None:
    """`idle_session_timeout` ends them, with a message before."""
    name = make_url(migrated_postgresql_url).database
    end = Ending(migrated_postgresql_url)
    with postgres.connect() as connection:
        connection.autocommit = True
        connection.execute(f"ALTER DATABASE {name} SET idle_session_timeout = 200".encode())
    app = Mutirao(migrated_postgresql_url)

    @app.task
    def step() -> None: ...

    for _ in range(3):
        step.enqueue()
        app.jobs()
        await step.aenqueue()
        end.close()
        ids = end.ids()
        wait_until(lambda ids=ids: not [each for each in ids if _runs(each)])  # type: ignore[misc]
    app.close()  # what plain calls opened
    await app.aclose()
    end.close()


async def test_idle_sessions_of_mariadb(migrated_mysql_url: str, mysql: MysqlServer) -> None:
    """`wait_timeout` ends them, with a message before."""
    end = Ending(migrated_mysql_url)
    with mysql.connect() as administrator, administrator.cursor() as cursor:
        cursor.execute("SELECT @@global.wait_timeout")
        [before] = cursor.fetchone() or [0]
        try:
            cursor.execute("SET GLOBAL wait_timeout = 1")
            app = Mutirao(migrated_mysql_url)

            @app.task
            def step() -> None: ...

            for _ in range(2):
                step.enqueue()
                app.jobs()
                await step.aenqueue()
                wait_until(lambda: not end.ids())
                end.close()
        finally:
            cursor.execute(f"SET GLOBAL wait_timeout = {before}")
    app.close()  # what plain calls opened
    await app.aclose()
    end.close()
