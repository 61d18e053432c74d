"""What a session of ours cannot set is refused with a sentence, by whoever begins."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pymysql
import pytest
from pymysql.cursors import Cursor
from sqlalchemy import Engine, create_engine, event

from mutirao.errors import ConfigurationError
from mutirao.model.findings import Level
from mutirao.sql import migrations
from mutirao.sql.dialects.mysql import server
from mutirao.sql.statements import doctor
from mutirao.sql.store.jobs import SqlStore
from tests.integration.cli.conftest import make_shop
from tests.integration.sessions.kit import defaults
from tests.support.mariadb import MariadbServer, MysqlServer

BY_STATEMENT = {"log-bin": "log", "binlog-format": "STATEMENT", "performance-schema": "OFF"}
COMMANDS = ("migrate", "worker", "doctor")


@pytest.fixture(scope="module")
def by_statement() -> Iterator[str]:
    """The URL of a database with our tables, on a server that has written its log by STATEMENT."""
    with MariadbServer(BY_STATEMENT) as own:
        name = own.create_database()
        with defaults(own, binlog_format="ROW"):
            migrations.upgrade(own.url(name))
        yield own.url(name)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_binary_log_by_statement(
    by_statement: str, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each command says so, and what to do, and ends with an error."""
    result = make_shop(by_statement, tmp_path, monkeypatch).run(command, "shop:app")
    text = " ".join((result.stdout + result.stderr).split())
    assert result.exit_code != 0
    assert "refuses whatever is written in READ COMMITTED" in text
    assert "set binlog_format = ROW" in text
    assert "Traceback" not in text


def test_tables_that_have_to_have_keys(mysql: MysqlServer) -> None:
    """A server that wants a primary key of each table: `migrate` says so, until they are made."""
    name = mysql.create_database()
    with defaults(mysql, innodb_force_primary_key=1, enforce_storage_engine="InnoDB"):
        if "mariadb" in _version(mysql):
            with pytest.raises(
                ConfigurationError, match="innodb_force_primary_key = ON, but one of"
            ):
                migrations.upgrade(mysql.url(name))
    migrations.upgrade(mysql.url(name))
    with defaults(mysql, innodb_force_primary_key=1, sql_require_primary_key=1):
        migrations.upgrade(mysql.url(name))
    mysql.drop_database(name)


def test_another_engine(mysql: MysqlServer) -> None:
    """Whoever may set it sets it."""
    name = mysql.create_database()
    with defaults(mysql, enforce_storage_engine="MyISAM", sql_require_primary_key=1):
        migrations.upgrade(mysql.url(name))
    mysql.drop_database(name)


def _version(mysql: MysqlServer) -> str:
    with mysql.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT version()")
        return str(cursor.fetchone()).lower()


@pytest.fixture
def database(mysql: MysqlServer) -> Iterator[str]:
    """The name of an empty database."""
    name = mysql.create_database()
    yield name
    mysql.drop_database(name)


@pytest.fixture
def engine(mysql: MysqlServer, database: str) -> Iterator[Engine]:
    """An engine of ours."""
    store = SqlStore(mysql.url(database))
    yield store.engines.sync()
    store.engines.close_sync()


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ("SET SESSION sql_mode = 'ANSI_QUOTES'", "sql_mode = ANSI_QUOTES"),
        ("SET SESSION completion_type = 1", "completion_type = CHAIN"),
        ("SET SESSION sql_select_limit = 7", "sql_select_limit = 7"),
        ("SET SESSION TRANSACTION READ ONLY", "_read_only = ON"),
        ("SET NAMES latin1", "a character set = in which é漢🙂 arrives as 0x"),
        ("SET SESSION collation_connection = latin1_bin", "a character set = in which"),
    ],
)
async def test_what_is_set_again(mysql: MysqlServer, engine: Engine, said: str, found: str) -> None:
    """Something between us and the server has set it again: workers do not begin, doctors tell."""
    with engine.connect() as connection:
        assert [*server.session_faults(connection)] == []
        connection.exec_driver_sql(said)
        with pytest.raises(
            ConfigurationError, match="though it was set to something else"
        ) as raised:
            server.refuse(connection)
        assert found in str(raised.value)
        assert found in " ".join(fault.found for fault in server.faults(connection))


async def test_an_engine_that_sets_something(mysql: MysqlServer, database: str) -> None:
    """What an application's engine sets, in whatever way, is for its own connections."""
    url = (
        mysql.url(database)
        + "?charset=latin1&sql_mode=ANSI_QUOTES&init_command=SET+sql_select_limit=1"
    )
    engine = create_engine(url)

    @event.listens_for(engine, "connect")
    def _set(connection: pymysql.Connection[Cursor], record: object) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SET SESSION sql_mode = 'ANSI_QUOTES', completion_type = 2")

    store = SqlStore(engine)
    migrations.upgrade(mysql.url(database))
    await store.check()
    assert [f for f in await doctor.examine(store.engines, set()) if f.level is Level.PROBLEM] == []
    await store.close()
    with engine.connect() as connection:
        assert "ANSI_QUOTES" in connection.exec_driver_sql("SELECT @@sql_mode").scalar_one()


async def test_a_creator_of_other_texts(mysql: MysqlServer, database: str) -> None:
    """What a driver makes of texts nobody else can set."""
    engine = create_engine(
        "mysql+pymysql://", creator=lambda: mysql.connect(database, charset="latin1")
    )
    with pytest.raises(ConfigurationError, match=r"whose texts are \w+, where ours have"):
        await SqlStore(engine).check()


OF_A_SESSION = (
    "SELECT variable_name FROM information_schema.system_variables"
    " WHERE variable_scope LIKE 'SESSION%'",
    "SELECT variable_name FROM performance_schema.variables_metadata"
    " WHERE variable_scope LIKE 'SESSION%'",
)


def test_each_variable_has_its_place(mysql: MysqlServer) -> None:
    """The decision names each variable of a session that the server has, and whether it is set."""
    page = Path(__file__).parents[3] / "docs" / "adr" / "0082-a-session-says-what-it-needs.md"
    asked = OF_A_SESSION["mariadb" not in _version(mysql)]
    with mysql.connect() as connection, connection.cursor() as cursor:
        cursor.execute(asked)
        names = {str(name).lower() for (name,) in cursor.fetchall()}
    values = {*re.findall(r"`(\w+)`", page.read_text())}
    assert len(names) > 100
    assert names <= values
