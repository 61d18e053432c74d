"""Programs that fork when they have used the application: no child disturbs its parent."""

from __future__ import annotations

import pytest
from sqlalchemy import make_url

from tests.integration.service.kit import ran
from tests.support.rabbitmq import RabbitServer

PROGRAM = "forks_after_use"
WHAT = ["ends", "closes", "uses", "collects"]


def _with(driver: str, url: str) -> str:
    there = make_url(url)
    of = there.set(drivername=f"{there.get_backend_name()}+{driver}")
    return of.render_as_string(hide_password=False)


@pytest.mark.repeats("psycopg", "closes", "uses", decided="tests/integration/service/test_forks.py")
@pytest.mark.parametrize("what", WHAT)
@pytest.mark.parametrize("driver", ["asyncpg", "psycopg"])
def test_from_an_event_loop(driver: str, what: str, pg_url: str) -> None:
    """The parent's connections are those of its loop, which the child cannot close."""
    assert ran(PROGRAM, _with(driver, pg_url), what, "loop") == "all is well\n"


@pytest.mark.repeats("collects", decided="tests/integration/service/test_forks.py")
@pytest.mark.parametrize("what", ["ends", "collects"])
def test_from_a_portal(what: str, pg_url: str) -> None:
    """They are those of the application's own loop, which runs in a thread."""
    assert ran(PROGRAM, _with("asyncpg", pg_url), what) == "all is well\n"


@pytest.mark.repeats(
    "psycopg", "closes", "collects", decided="tests/integration/service/test_forks.py"
)
@pytest.mark.parametrize("what", WHAT)
@pytest.mark.parametrize("driver", ["psycopg2", "psycopg"])
def test_from_threads(driver: str, what: str, pg_url: str) -> None:
    """They are those of threads, of which the child has none, and starts its own."""
    assert ran(PROGRAM, _with(driver, pg_url), what) == "all is well\n"


@pytest.mark.repeats("pymysql", "closes", "uses", decided="tests/integration/service/test_forks.py")
@pytest.mark.parametrize("what", WHAT)
@pytest.mark.parametrize("driver", ["mysqldb", "pymysql"])
def test_from_threads_on_mariadb(driver: str, what: str, migrated_mysql_url: str) -> None:
    """So it is on MariaDB."""
    assert ran(PROGRAM, _with(driver, migrated_mysql_url), what) == "all is well\n"


@pytest.mark.repeats("closes", "uses", decided="tests/integration/service/test_forks.py")
@pytest.mark.parametrize("what", WHAT)
def test_from_an_event_loop_on_mariadb(what: str, migrated_mysql_url: str) -> None:
    """So it is on MariaDB."""
    assert ran(PROGRAM, _with("aiomysql", migrated_mysql_url), what, "loop") == "all is well\n"


@pytest.mark.repeats("aiosqlite", decided="tests/integration/service/test_forks.py")
@pytest.mark.parametrize("what", ["ends", "closes", "collects"])
@pytest.mark.parametrize("driver", ["pysqlite", "aiosqlite"])
def test_from_sqlite(driver: str, what: str, lite_url: str) -> None:
    """A child that leaves the file alone disturbs nobody, when it closes what it has, neither."""
    loop = ["loop"] if driver == "aiosqlite" else []
    assert ran(PROGRAM, _with(driver, lite_url), what, *loop) == "all is well\n"


@pytest.mark.parametrize("how", ["", "loop"])
@pytest.mark.parametrize("what", ["uses", "collects"])
def test_from_a_broker(what: str, how: str, rabbit: RabbitServer) -> None:
    """Neither do children end the connections to RabbitMQ; they have their own."""
    assert ran("forks_after_publishing", rabbit.url(), what, *how.split()) == "all is well\n"
