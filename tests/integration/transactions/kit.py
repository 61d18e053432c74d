"""What the tests of transactions share: other sessions, and the moment in which somebody waits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg

from tests.support.postgresql import PostgresServer
from tests.support.waiting import until

WAITING = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND wait_event_type = 'Lock' AND pid <> pg_backend_pid()
"""


class Others:
    """Sessions of one database that are not Mutirão's own; one of them looks, and stays open."""

    def __init__(
        self, postgres: PostgresServer, database: str, observer: psycopg.Connection[Any]
    ) -> None:
        self._postgres, self._database, self._observer = postgres, database, observer

    @contextmanager
    def session(self, isolation: str = "read committed") -> Iterator[psycopg.Connection[Any]]:
        """Open a transaction; what is not committed in it is rolled back."""
        with self._postgres.connect(self._database) as session:
            session.execute(f"BEGIN ISOLATION LEVEL {isolation}".encode())
            yield session
            session.rollback()

    def rows(self, statement: str) -> list[Any]:
        """Return the rows of a statement, if it has any."""
        cursor = self._observer.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []

    async def until_someone_waits(self, number: int = 1) -> None:
        """Wait until so many sessions wait for a lock."""
        await until(lambda: self.rows(WAITING)[0][0] == number)

    @contextmanager
    def by_default(self, setting: str, value: str) -> Iterator[None]:
        """Let sessions that begin meanwhile have another setting."""
        self.rows(f"ALTER DATABASE {self._database} SET {setting} TO '{value}'")
        try:
            yield
        finally:
            self.rows(f"ALTER DATABASE {self._database} RESET {setting}")

    @contextmanager
    def by_default_of_server(self, setting: str, value: str) -> Iterator[None]:
        """Let all sessions have another setting meanwhile, those that are open, too."""
        try:
            self.rows(f"ALTER SYSTEM SET {setting} TO '{value}'")
            self.rows("SELECT pg_reload_conf()")
            yield
        finally:
            self.rows(f"ALTER SYSTEM RESET {setting}")
            self.rows("SELECT pg_reload_conf()")
