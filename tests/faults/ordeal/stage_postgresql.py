"""A PostgreSQL of our own as the stage, and what can be done to it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from time import monotonic

import psycopg
from psycopg import sql

from mutirao.sql.schema.tables import metadata
from tests.faults.kit.databases import changed
from tests.faults.kit.proxy import Proxy
from tests.faults.ordeal.stage_server import (
    NAME,
    PASSWORD,
    PATIENCE,
    ROLE,
    ServerStage,
    ways_to,
)
from tests.support.postgresql import PostgresServer

STATEMENT_TIMEOUT = "3s"
RELOAD = "select pg_reload_conf()"
_ROLE = sql.Identifier(ROLE)
_TERMINATE = (
    "select pg_terminate_backend(pid) from pg_stat_activity where usename = %s and random() <= %s"
)
_CANCEL = (
    "select pg_cancel_backend(pid) from pg_stat_activity where usename = %s and state = 'active'"
)
_SESSIONS = "select pid from pg_stat_activity where usename = %s"
_CLAIMED = (
    "select id from mutirao_live where worker is not null order by id limit %s"
    " for update skip locked"
)


class PostgresStage(ServerStage):
    """`server` is the primary; a failover makes another one that."""

    away = psycopg.OperationalError
    server: PostgresServer

    def __init__(self, server: PostgresServer, proxy: Proxy, way: Proxy, driver: str) -> None:
        super().__init__(proxy, way)
        self.server = server
        self.worker_url = changed(
            server.url(NAME, driver), port=proxy.port, username=ROLE, password=PASSWORD
        )
        self.own_url = changed(server.url(NAME), port=way.port)

    def connect(self, database: str = "postgres") -> psycopg.Connection:
        """Return a superuser's connection straight to the server, in autocommit mode.

        In a crowd those who are being turned away take even the places kept for superusers.
        """
        deadline = monotonic() + PATIENCE
        while True:
            try:
                return self.server.connect(database)
            except psycopg.OperationalError:
                if monotonic() > deadline:
                    raise
                time.sleep(0.05)

    def administer(self, *statements: str | sql.Composed) -> None:
        """Execute statements as a superuser, each for itself."""
        with self.connect() as connection:
            for statement in statements:
                connection.execute(statement)

    def workers_sessions(self) -> list[int]:
        """Return the server's processes that serve workers."""
        with self.connect() as connection:
            return [row[0] for row in connection.execute(_SESSIONS, (ROLE,)).fetchall()]

    def terminate(self, share: float = 1.0) -> int:
        """End a share of the workers' sessions; return how many there were."""
        with self.connect() as connection:
            return connection.execute(_TERMINATE, (ROLE, share)).rowcount

    @contextmanager
    def cancelling(self) -> Iterator[Callable[[], object]]:
        """Lend what cancels whatever the workers' sessions do."""
        with self.connect() as connection:
            yield partial(connection.execute, _CANCEL, (ROLE,))

    def tables(self) -> list[str]:
        """Return our tables."""
        return list(metadata.tables)

    @contextmanager
    def table_locked(self, table: str) -> Iterator[None]:
        """Lock a table of ours."""
        with self.connect(NAME) as connection, connection.transaction():
            lock = sql.SQL("lock table {} in access exclusive mode")
            connection.execute(lock.format(sql.Identifier(table)))
            yield

    @contextmanager
    def rows_locked(self, most: int) -> Iterator[str]:
        """Lock rows of jobs that run, where the workers' statements have a time limit."""
        limit = sql.SQL("alter role {} set statement_timeout = {}")
        self.administer(limit.format(_ROLE, sql.Literal(STATEMENT_TIMEOUT)))
        self.terminate()
        try:
            with self.connect(NAME) as connection, connection.transaction():
                rows = connection.execute(_CLAIMED, (most,)).rowcount
                yield f"{rows} claimed rows, statement_timeout is {STATEMENT_TIMEOUT}"
        finally:
            self.administer(sql.SQL("alter role {} reset statement_timeout").format(_ROLE))
            self.terminate()

    @contextmanager
    def read_only(self) -> Iterator[None]:
        """Let nobody write."""
        self.administer("alter system set default_transaction_read_only = on", RELOAD)
        try:
            yield
        finally:
            self.administer("alter system reset default_transaction_read_only", RELOAD)

    def limit(self, most: int | None) -> None:
        """Let workers have so many connections."""
        bound = sql.Literal(-1 if most is None else most)
        self.administer(sql.SQL("alter role {} connection limit {}").format(_ROLE, bound))

    def let_in(self, allowed: bool) -> None:
        """Let workers log in, or not."""
        how = sql.SQL("login" if allowed else "nologin")
        self.administer(sql.SQL("alter role {} {}").format(_ROLE, how))

    @contextmanager
    def somebody(self) -> Iterator[Callable[[], psycopg.Connection]]:
        """Lend what connects a user who has no privileges."""
        self.administer("create role somebody login password 'somebody'")
        url = f"postgresql://somebody:somebody@127.0.0.1:{self.server.port}/postgres"
        try:
            yield lambda: psycopg.connect(url, connect_timeout=5)
        finally:
            self.administer("drop role somebody")


@contextmanager
def on_postgresql(driver: str) -> Iterator[PostgresStage]:
    """Lend a stage whose workers use this driver."""
    with ExitStack() as stack:
        server = stack.enter_context(PostgresServer())
        stage = PostgresStage(server, *stack.enter_context(ways_to(server)), driver)
        # After a failover it is another one.
        stack.callback(lambda: stage.server.close())
        made = sql.SQL("create role {} login password {}").format(_ROLE, sql.Literal(PASSWORD))
        owned = sql.SQL("create database {} owner {}").format(sql.Identifier(NAME), _ROLE)
        stage.administer(made, owned)
        yield stage
