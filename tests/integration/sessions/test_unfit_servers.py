"""Servers on which nothing can work, and such that only look so: what each command says.

Real ones, with the settings by which they are so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mutirao.sql import migrations
from tests.integration.cli.conftest import Shell, make_shop
from tests.integration.databases.kit import works
from tests.support.mariadb import MariadbServer, MysqlServer

COMMANDS = ("migrate", "worker", "doctor")
_PLAIN = {"performance-schema": "OFF"}
_WITHOUT_INNODB = {**_PLAIN, "innodb": "OFF", "default-storage-engine": "Aria"}
_TOO_OLD = {**_PLAIN, "version": "10.5.29-MariaDB"}  # which it says of itself, and is not
Shop = Callable[[str], Shell]


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """What makes an application on a database, with its command line."""
    return lambda url: make_shop(url, tmp_path, monkeypatch)


@contextmanager
def lent(settings: dict[str, str]) -> Iterator[str]:
    """Lend the URL of an empty database on a MariaDB of these settings."""
    with MariadbServer(settings) as own:
        yield own.url(own.create_database())


@pytest.fixture(scope="module")
def without_innodb() -> Iterator[str]:
    """A server of which InnoDB is switched off: it does not even know our variables."""
    with lent(_WITHOUT_INNODB) as url:
        yield url


@pytest.fixture(scope="module")
def too_old() -> Iterator[str]:
    """A server from before 10.6."""
    with lent(_TOO_OLD) as url:
        yield url


def failure_of(shell: Shell, command: str) -> str:
    """Return the output of a command that fails."""
    result = shell.run(command, "shop:app")
    assert result.exit_code != 0
    assert "Traceback" not in result.output
    return " ".join((result.stdout + result.stderr).split())


@pytest.mark.parametrize("command", COMMANDS)
def test_a_server_without_innodb(without_innodb: str, command: str, shop: Shop) -> None:
    """Not that it knows no `innodb_lock_wait_timeout`."""
    said = failure_of(shop(without_innodb), command)
    assert "lacks the storage engine InnoDB" in said
    assert "use a server that has it, or switch it on there" in said


@pytest.mark.parametrize("command", COMMANDS)
def test_a_server_that_is_too_old(too_old: str, command: str, shop: Shop) -> None:
    """Each says so, not that tables are to be made, which `migrate` would not."""
    said = failure_of(shop(too_old), command)
    assert "the server is 10.5.29-MariaDB" in said
    assert "use MariaDB 10.6 or MySQL 8.0.17, or newer" in said


@pytest.fixture(params=["mysql", "real_mysql"])
def either(request: pytest.FixtureRequest) -> MysqlServer:
    """A MariaDB, and a MySQL."""
    server: MysqlServer = request.getfixturevalue(request.param)
    return server


@pytest.mark.parametrize("command", COMMANDS)
def test_a_table_of_myisam(either: MysqlServer, command: str, shop: Shop) -> None:
    """What is written to it is not rolled back, so no worker begins, either."""
    name = either.create_database()
    migrations.upgrade(either.url(name))
    with either.connect(name) as connection, connection.cursor() as cursor:
        cursor.execute("ALTER TABLE mutirao_duty ENGINE = MyISAM")
    said = failure_of(shop(either.url(name)), command)
    assert "mutirao_duty is kept by MyISAM, which has no transactions" in said
    assert "ALTER TABLE mutirao_duty ENGINE = InnoDB" in said
    either.drop_database(name)


@pytest.mark.parametrize("named", ["mysql+pymysql", "mariadb+pymysql"])
def test_the_name_of_the_other(either: MysqlServer, named: str, shop: Shop) -> None:
    """Either name leads to both: tables are made, a job is done, and the doctor is content."""
    name = either.create_database()
    shell = shop(either.url(name, named))
    shell.ok("migrate", "shop:app")
    asyncio.run(works(either.url(name, named)))
    shell.ok("doctor", "shop:app")
    either.drop_database(name)


@pytest.mark.repeats("2", decided="tests/integration/sessions/test_unfit_servers.py")
@pytest.mark.parametrize("value", ["1", "2"])
def test_names_without_capitals(value: str, shop: Shop) -> None:
    """`lower_case_table_names`; 2 is 0 where files know capitals. Ours have none."""
    with MariadbServer({**_PLAIN, "lower-case-table-names": value}) as own:
        with own.connect() as connection, connection.cursor() as cursor:
            cursor.execute("CREATE DATABASE Shop")
        shell = shop(own.url("Shop"))
        shell.ok("migrate", "shop:app")
        shell.ok("migrate", "shop:app")
        asyncio.run(works(own.url("Shop")))
        shell.ok("doctor", "shop:app")
