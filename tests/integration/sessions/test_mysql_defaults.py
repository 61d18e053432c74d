"""Whatever a server gives a session by default: our own sessions are as we need them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import text

from mutirao import Job, JobState, Mutirao
from mutirao.model.findings import Level
from mutirao.model.jobs.job import NewJob
from mutirao.sql import migrations
from mutirao.sql.statements import doctor
from mutirao.sql.store.jobs import SqlStore
from tests.integration.sessions.kit import MODES, defaults
from tests.integration.worker.kit import ended, working
from tests.support.mariadb import MysqlServer

HOSTILE: dict[str, dict[str, str | float]] = {
    "quotes": {"sql_mode": MODES},
    "oracle": {"sql_mode": "ORACLE,EMPTY_STRING_IS_NULL"},
    "ansi": {"sql_mode": "ANSI,PAD_CHAR_TO_FULL_LENGTH"},
    "chain": {"completion_type": "CHAIN"},
    "release": {"completion_type": "RELEASE"},
    "one row": {"sql_select_limit": 1},
    "no row": {"sql_select_limit": 0},
    "safe updates": {"sql_safe_updates": 1},
    "few looked at": {"sql_big_selects": 0, "max_join_size": 2},
    "reading only": {"tx_read_only": 1, "transaction_read_only": 1},
    "not waiting": {"innodb_lock_wait_timeout": 1, "lock_wait_timeout": 1},
    "serializable": {"tx_isolation": "SERIALIZABLE", "transaction_isolation": "SERIALIZABLE"},
    "a moment": {"max_statement_time": 0.001, "max_execution_time": 1},
    "unchecked": {"foreign_key_checks": 0, "unique_checks": 0, "check_constraint_checks": 0},
    "short": {"group_concat_max_len": 4, "max_sort_length": 8, "div_precision_increment": 0},
    "patterns": {"default_regex_flags": "EXTENDED"},
    "unquoted": {"sql_quote_show_create": 0},
    "elsewhere": {"time_zone": "+13:00", "sql_auto_is_null": 1, "autocommit": 0},
}
ALL_AT_ONCE = {name: value for each in HOSTILE.values() for name, value in each.items()}
DRIVERS = ("mysql+pymysql", "mariadb+pymysql", "mysql+aiomysql", "mysql+mysqldb")


# What another one overrides there is shown alone; all that is left is among all at once.
ALONE = ("quotes", "oracle", "chain", "one row", "unquoted")
# MySQL greets with autocommit on, whatever its default is, and drivers believe it.
OF_MYSQL = "MySQL's autocommit"
AGAIN = pytest.mark.repeats(decided="tests/integration/sessions/test_mysql_defaults.py")


@pytest.fixture(
    params=[
        *(pytest.param(name, marks=() if name in ALONE else AGAIN) for name in HOSTILE),
        *DRIVERS,
        *(f"{OF_MYSQL} {driver}" for driver in DRIVERS if driver.startswith("mysql")),
    ]
)
def url(request: pytest.FixtureRequest, mysql: MysqlServer) -> Iterator[str]:
    """The URL of an empty database, on a server with such defaults; by each driver with all."""
    driver = request.param.removeprefix(f"{OF_MYSQL} ")
    on_mysql = driver != request.param
    server: MysqlServer = request.getfixturevalue("real_mysql") if on_mysql else mysql
    name, usual = server.create_database(), "mysql+pymysql"
    wanted = {"autocommit": 0} if on_mysql else HOSTILE.get(request.param, ALL_AT_ONCE)
    with defaults(server, **wanted):
        yield server.url(name, driver if driver in DRIVERS else usual)
    server.drop_database(name)


async def test_work_is_done(url: str) -> None:
    """Tables are made, jobs enqueued in every way, done, and examined."""
    migrations.upgrade(url)
    app, notes = Mutirao(url), "INSERT INTO note VALUES (:job, 'é漢🙂')"

    @app.task
    def plain(job: Job) -> None:
        with job.transaction() as session:
            session.execute(text(notes), {"job": job.id})

    @app.task
    async def awaited(job: Job) -> None:
        if url.startswith("mysql+mysqldb"):
            return  # it has no asynchronous form
        async with job.transaction() as session:
            await session.execute(text(notes), {"job": job.id})

    engines = SqlStore(url).engines
    with engines.sync().begin() as connection:
        connection.execute(
            text("CREATE TABLE note (job bigint PRIMARY KEY, said text) CHARSET utf8mb4")
        )
    ids = [plain.using(key=key).enqueue().id for key in ("é漢🙂", "x")]
    ids += await app.store.aenqueue([NewJob(task="awaited", args="{}") for _ in range(5)])
    async with working(app, poll=0.2):
        states = [(await ended(app, id)).state for id in ids]
    found = await doctor.examine(engines, {"plain", "awaited"})
    assert states == [JobState.SUCCEEDED] * 7
    assert [each for each in found if each.level is Level.PROBLEM] == []
    with engines.sync().begin() as connection:
        said = connection.execute(text("SELECT said FROM note")).scalars().all()
    assert {*said} == {"é漢🙂"}
    await app.aclose()
    app.close()
