"""On MySQL and MariaDB a single job, with its transaction, is one text: one round trip."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import MySQLdb.cursors
import pymysql
import pytest
from sqlalchemy import create_engine
from sqlalchemy.exc import ProgrammingError

from mutirao.errors import StoreError
from mutirao.model.findings import Level
from mutirao.model.jobs.job import NewJob
from mutirao.sql.drivers.pymysql import OwnPyMysqlDriver, PyMysqlDriver
from mutirao.sql.drivers.steps import Execute
from mutirao.sql.store.jobs import SqlStore
from tests.support.mariadb import MysqlServer

ARGS = r"""{"n": "; '\\' %s ?"}"""
A_JOB = NewJob(task="t", args=ARGS, delay=60.0)
ROWS = """SELECT j.id, j.args, l.run_at - j.enqueued_at
FROM mutirao_job j LEFT JOIN mutirao_live l ON l.id = j.id ORDER BY j.id"""
REFUSE = """CREATE TRIGGER refuse BEFORE INSERT ON mutirao_live FOR EACH ROW
SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'not today'"""

Ask = Callable[[str], list[tuple[Any, ...]]]


@pytest.fixture(params=["mysql+pymysql", "mysql+mysqldb"])
def store(request: pytest.FixtureRequest, migrated_mysql_url: str) -> Iterator[SqlStore]:
    """A store that has its connection already."""
    store = SqlStore(migrated_mysql_url.replace("mysql+pymysql", request.param))
    store.enqueue([A_JOB])
    yield store
    store.engines.close_sync()


@pytest.fixture
def ask(migrated_mysql_url: str) -> Iterator[Ask]:
    """Say something by another connection; return the rows."""
    engine = create_engine(migrated_mysql_url, isolation_level="AUTOCOMMIT")
    with engine.connect() as conn:

        def said(sql: str) -> list[tuple[Any, ...]]:
            found = conn.exec_driver_sql(sql)
            return [tuple(row) for row in found] if found.returns_rows else []

        yield said
    engine.dispose()


@pytest.fixture
def texts(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What both drivers send."""
    sent: list[Any] = []
    for kind, name in (
        (pymysql.connections.Connection, "_execute_command"),
        (MySQLdb.cursors.Cursor, "_query"),
    ):
        send = getattr(kind, name)

        def note(own: Any, *told: Any, send: Any = send) -> Any:
            sent.append(told[-1])
            return send(own, *told)

        monkeypatch.setattr(kind, name, note)
    return sent


def test_one_trip(store: SqlStore, ask: Ask, texts: list[Any]) -> None:
    """Whatever stands in its values; its id is returned."""
    [before] = [row[0] for row in ask(ROWS)]
    del texts[:]
    assert [*store.enqueue([A_JOB]), *store.enqueue([A_JOB])] == [before + 1, before + 2]
    assert len(texts) == 2
    assert ask(ROWS) == [(before + n, ARGS, 60_000_000) for n in range(3)]


def test_all_of_it_or_nothing(store: SqlStore, ask: Ask) -> None:
    """What fails in the middle is rolled back, and the connection goes on."""
    before = ask(ROWS)
    ask(REFUSE)
    with pytest.raises(StoreError, match="not today"):
        store.enqueue([A_JOB])
    ask("DROP TRIGGER refuse")
    assert ask(ROWS) == before
    [id] = store.enqueue([A_JOB])
    assert [row[0] for row in ask(ROWS)] == [*(row[0] for row in before), id]


def test_in_a_transaction_of_yours(store: SqlStore, ask: Ask, texts: list[Any]) -> None:
    """Two, as the driver takes one statement in a text."""
    with store.engines.sync().connect() as conn:
        conn.exec_driver_sql("SELECT 1")
        del texts[:]
        store.enqueue([A_JOB], conn)
        assert len(texts) == 2
        conn.rollback()
    assert len(ask(ROWS)) == 1


def test_what_a_handler_has(migrated_mysql_url: str) -> None:
    """A connection of PyMySQL that is lent takes one statement in a text."""
    store = SqlStore(migrated_mysql_url)
    with store.engines.sync().connect() as conn, pytest.raises(ProgrammingError, match="1064"):
        conn.exec_driver_sql("SELECT 1; SELECT 2")
    store.engines.close_sync()


VALUES = [
    *("", "'", '"', "\\", "\\'", "%s?", "a\0b", "á🦘", "x" * 250, "x" * 251, "x" * 70_000),
    *(None, 0, -7, 1 << 62, True, 1.5, 1e300, Decimal("1.50"), Level.WARNING),
    # PyMySQL before 1.2 writes bytes as a text, and cannot read those that are none.
    *([b"\x00\xff'"] if pymysql.VERSION >= (1, 2) else []),
    datetime(2026, 11, 26, 12, 30, 1, 7, tzinfo=UTC),
]
COLUMNS = (
    f"SELECT {', '.join('?' for _ in VALUES)}, '\\\\', CAST('{{}}' AS CHAR CHARACTER SET binary)"
)


@pytest.mark.parametrize("mode", ["", "NO_BACKSLASH_ESCAPES"])
def test_values_are_those_of_the_driver(mysql: MysqlServer, mode: str) -> None:
    """Whatever is written into a text, and read from a result."""
    with mysql.connect(None) as conn, conn.cursor() as cursor:
        cursor.execute("SET SESSION sql_mode = %s", (mode,))
        asked = Execute(COLUMNS, tuple(VALUES))
        theirs = PyMysqlDriver(conn).handle(asked)
        assert OwnPyMysqlDriver(conn).handle(asked) == theirs
        assert [type(value) for value in theirs[0]][:3] == [str] * 3
        cursor.execute("SELECT 1")  # the connection is as the driver left it
        assert cursor.fetchall() == ((1,),)
