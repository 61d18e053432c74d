"""A MariaDB or a MySQL of our own as the stage, and what can be done to it."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from time import monotonic
from typing import Any, Literal, TypeAlias

import pymysql
from pymysql.cursors import Cursor

from tests.faults.kit.databases import changed, server_of
from tests.faults.kit.proxy import Proxy
from tests.faults.ordeal.stage_server import (
    NAME,
    PASSWORD,
    PATIENCE,
    ROLE,
    ServerStage,
    ways_to,
)
from tests.support.mariadb import LocalServer

Connection: TypeAlias = "pymysql.Connection[Cursor]"
# What is committed survives the end of the server; a power cut is none of these troubles.
_FLUSHED = {"innodb-flush-log-at-trx-commit": "2"}
_SETTINGS = {"mysql": _FLUSHED, "real-mysql": {**_FLUSHED, "sync-binlog": "0"}}
_NO_SUCH_THREAD = 1094  # it has ended meanwhile
_TABLES = (
    "SELECT table_name FROM information_schema.tables"
    " WHERE table_schema = %s AND table_type = 'BASE TABLE' ORDER BY 1"
)
_CLAIMED = (
    "SELECT id FROM mutirao_live FORCE INDEX (PRIMARY) WHERE worker IS NOT NULL ORDER BY id"
    " LIMIT %s FOR UPDATE SKIP LOCKED"
)
_IS = "SELECT @@GLOBAL.{}"


class MysqlStage(ServerStage):
    """Workers are a user of their own, who has all that there is of one database only."""

    away = pymysql.OperationalError
    server: LocalServer

    def __init__(self, server: LocalServer, proxy: Proxy, way: Proxy) -> None:
        super().__init__(proxy, way)
        self.server = server
        self.own_url = changed(server.url(NAME), port=way.port)
        self.worker_url = changed(self.own_url, port=proxy.port, username=ROLE, password=PASSWORD)

    def connect(self, database: str | None = None, **options: Any) -> Connection:
        """Return root's connection straight to the server, in autocommit mode.

        One place is kept for root, which others of ours may have.
        """
        deadline = monotonic() + PATIENCE
        while True:
            try:
                return self.server.connect(database, **options)
            except pymysql.OperationalError:
                if monotonic() > deadline:
                    raise
                time.sleep(0.05)

    def administer(self, *statements: str) -> None:
        """Execute statements as root, each for itself."""
        with closing(self.connect()) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def workers_sessions(self) -> list[int]:
        """Return the numbers of the connections of workers."""
        with closing(self.connect()) as connection:
            return [row["Id"] for row in _sessions(connection)]

    def terminate(self, share: float = 1.0) -> int:
        """End a share of the workers' sessions; return how many there were."""
        with closing(self.connect()) as connection:
            found = [row["Id"] for row in _sessions(connection) if random.random() <= share]
            return sum(_kill(connection, f"KILL {id}") for id in found)

    @contextmanager
    def cancelling(self) -> Iterator[Callable[[], object]]:
        """Lend what ends the statements, not the sessions, of workers."""
        with closing(self.connect()) as connection:
            yield partial(_cancel, connection)

    def tables(self) -> list[str]:
        """Return our tables, those that other databases have not, too."""
        with closing(self.connect()) as connection, connection.cursor() as cursor:
            cursor.execute(_TABLES, (NAME,))
            return [name for (name,) in cursor.fetchall() if name.startswith("mutirao_")]

    @contextmanager
    def table_locked(self, table: str) -> Iterator[None]:
        """Lock a table of ours, readers out, too."""
        with closing(self.connect(NAME)) as connection, connection.cursor() as cursor:
            cursor.execute(f"LOCK TABLES {table} WRITE")
            yield

    @contextmanager
    def rows_locked(self, most: int) -> Iterator[str]:
        """Lock rows of jobs that run; for how long workers wait is theirs to say."""
        with closing(self.connect(NAME)) as connection, connection.cursor() as cursor:
            cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
            connection.begin()
            yield f"{cursor.execute(_CLAIMED, (most,))} claimed rows"
            connection.rollback()

    @contextmanager
    def read_only(self) -> Iterator[None]:
        """Let nobody write who has no privilege for it."""
        with self.having({"read_only": "ON"}):
            yield

    def limit(self, most: int | None) -> None:
        """Let workers have so many connections."""
        self.administer(f"ALTER USER {ROLE}@'%' WITH MAX_USER_CONNECTIONS {most or 0}")

    def let_in(self, allowed: bool) -> None:
        """Let workers log in, or not."""
        self.administer(f"ALTER USER {ROLE}@'%' ACCOUNT {'UNLOCK' if allowed else 'LOCK'}")

    @contextmanager
    def somebody(self) -> Iterator[Callable[[], Connection]]:
        """Lend what connects a user who has no privileges."""
        self.administer("CREATE USER somebody@'%' IDENTIFIED BY 'somebody'")
        who = {"user": "somebody", "password": "somebody", "connect_timeout": 5}
        try:
            yield lambda: self.server.connect(None, **who)
        finally:
            self.administer("DROP USER somebody@'%'")

    @contextmanager
    def having(self, settings: Mapping[str, object]) -> Iterator[None]:
        """Have the server give these to new sessions, or hold to them; then what it had before."""
        before = {name: self._has(name) for name in settings}
        self._set(settings)
        try:
            yield
        finally:
            self._set(before)

    def _set(self, settings: Mapping[str, object]) -> None:
        with closing(self.connect()) as connection, connection.cursor() as cursor:
            for name, value in settings.items():
                cursor.execute(f"SET GLOBAL {name} = %s", (value,))

    def _has(self, name: str) -> object:
        with closing(self.connect()) as connection, connection.cursor() as cursor:
            cursor.execute(_IS.format(name))
            return (cursor.fetchone() or (None,))[0]


def _sessions(connection: Connection) -> list[dict[str, Any]]:
    with connection.cursor(pymysql.cursors.DictCursor) as cursor:
        cursor.execute("SHOW PROCESSLIST")
        return [row for row in cursor.fetchall() if row["User"] == ROLE]


def _cancel(connection: Connection) -> None:
    for row in _sessions(connection):
        if row["Command"] == "Query":
            _kill(connection, f"KILL QUERY {row['Id']}")


def _kill(connection: Connection, statement: str) -> bool:
    """Say it; return whether there was such a session."""
    with connection.cursor() as cursor:
        try:
            cursor.execute(statement)
        except pymysql.MySQLError as error:
            if error.args[0] != _NO_SUCH_THREAD:
                raise
            return False
    return True


@contextmanager
def on_mysql(database: Literal["mysql", "real-mysql"]) -> Iterator[MysqlStage]:
    """Lend a stage: a MariaDB, or a real MySQL."""
    with ExitStack() as stack:
        server = stack.enter_context(server_of(database, _SETTINGS[database]))
        assert isinstance(server, LocalServer)
        stage = MysqlStage(server, *stack.enter_context(ways_to(server)))
        stage.administer(
            f"CREATE DATABASE {NAME}",
            f"CREATE USER {ROLE}@'%' IDENTIFIED BY '{PASSWORD}'",
            f"GRANT ALL ON {NAME}.* TO {ROLE}@'%'",
        )
        yield stage
