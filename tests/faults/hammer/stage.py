"""Where it takes place: a database with a user for each kind of those who use it.

By its user a server tells in its log who met whom. One file, on SQLite, has no users.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from mutirao.sql import migrations
from tests.faults.hammer.deadlocks import PREFIX, Deadlock, deadlocks, of_mysql
from tests.faults.hammer.plan import Plan
from tests.faults.kit.databases import changed, server_of
from tests.support.mariadb import LocalServer
from tests.support.postgresql import PostgresServer

CALLER, COMMAND, WORKER = "caller", "command", "worker"
USERS = (CALLER, COMMAND, WORKER)
PASSWORD = "hammer"

_COUNTS = """
SELECT xact_commit + xact_rollback, deadlocks FROM pg_stat_database WHERE datname = %s
"""

_MYSQL = {"innodb-print-all-deadlocks": "ON", "innodb-flush-log-at-trx-commit": "0"}
_REAL = {**_MYSQL, "sync-binlog": "0", "log-error-verbosity": "3"}  # of a MySQL
_DEADLOCKS = "SELECT count FROM information_schema.innodb_metrics WHERE name = 'lock_deadlocks'"


class PostgresStage:
    """A database of a server of our own."""

    rare = 100_000  # transactions in which one deadlock may be, where nobody is told of it

    def __init__(self, server: PostgresServer, driver: str) -> None:
        self._server, self._driver = server, driver
        self._name = server.create_database()
        with server.connect() as connection:
            for user in USERS:
                connection.execute(f"CREATE ROLE {user} SUPERUSER LOGIN PASSWORD '{PASSWORD}'")
        self.own_url = server.url(self._name)

    def url(self, user: str) -> str:
        """Return where somebody finds the database."""
        url = self._server.url(self._name, self._driver)
        return changed(url, username=user, password=PASSWORD)

    caller_url = url

    def counts(self) -> tuple[int, int]:
        """Return how many transactions there were, and how many deadlocks."""
        with self._server.connect() as connection:
            row = connection.execute(_COUNTS, (self._name,)).fetchone()
        return (row[0], row[1]) if row else (0, 0)

    @property
    def log(self) -> Path:
        """Where the server writes down what it breaks."""
        return self._server.directory / "log"

    def deadlocks(self) -> list[Deadlock]:
        """Return the deadlocks that the server's log tells of."""
        return deadlocks(self.log.read_text(errors="replace"))


class MysqlStage:
    """A database of a MariaDB or MySQL of our own, where InnoDB finds deadlocks at once."""

    rare = 10_000

    def __init__(self, server: LocalServer) -> None:
        self._server = server
        self._name = server.create_database()
        with server.connect() as connection, connection.cursor() as cursor:
            for user in USERS:
                cursor.execute(f"CREATE USER {user}@'%' IDENTIFIED BY '{PASSWORD}'")
                cursor.execute(f"GRANT ALL ON *.* TO {user}@'%'")
        self.own_url = server.url(self._name)

    def url(self, user: str) -> str:
        """Return where somebody finds the database."""
        return changed(self.own_url, username=user, password=PASSWORD)

    def caller_url(self, user: str) -> str:
        """Return the same for the asynchronous connections that callers hold themselves."""
        return self.url(user).replace("pymysql", "aiomysql")

    def counts(self) -> tuple[int, int]:
        """Return how many transactions there were that began with a BEGIN, and deadlocks."""
        with self._server.connect() as connection, connection.cursor() as cursor:
            cursor.execute("SHOW GLOBAL STATUS")
            found = {str(name).lower(): value for name, value in cursor.fetchall()}
            cursor.execute(_DEADLOCKS)
            [(deadlocks,)] = cursor.fetchall()
        ended = int(found["com_commit"]) + int(found["com_rollback"])
        return ended, int(deadlocks)

    @property
    def log(self) -> Path:
        """Where the server writes down what it breaks."""
        return self._server.directory / "log"

    def deadlocks(self) -> list[Deadlock]:
        """Return the deadlocks that the server's log tells of."""
        return of_mysql(self.log.read_text(errors="replace"))


class SqliteStage:
    """A file."""

    rare = 1
    log = None  # nobody writes one

    def __init__(self, path: Path) -> None:
        self.own_url = f"sqlite:///{path}"
        self._path = path

    def url(self, user: str) -> str:
        """Return where somebody finds the database."""
        return self.own_url

    def caller_url(self, user: str) -> str:
        """Return the same for the asynchronous connections that callers hold themselves."""
        return f"sqlite+aiosqlite:///{self._path}"

    def counts(self) -> tuple[int, int]:
        """Return nothing: nobody counts them, and there are no deadlocks."""
        return 0, 0

    def deadlocks(self) -> list[Deadlock]:
        """Return nothing: who writes has the whole file."""
        return []


Stage = PostgresStage | MysqlStage | SqliteStage


@contextmanager
def staged(plan: Plan, directory: Path) -> Iterator[Stage]:
    """Lend the database of a run, with Mutirão's tables."""
    with ExitStack() as stack:
        stage: Stage
        if plan.database == "sqlite":
            stage = SqliteStage(directory / "hammer.db")
        else:
            server = server_of(plan.database, _settings(plan))
            stack.enter_context(server)
            if isinstance(server, PostgresServer):
                stage = PostgresStage(server, plan.driver)
            else:
                stage = MysqlStage(server)
        migrations.upgrade(stage.own_url)
        yield stage


def _settings(plan: Plan) -> dict[str, str]:
    """Return how its server is set: it tells of all deadlocks, and waits for no disk."""
    if plan.database == "postgresql":
        return {
            "log_line_prefix": PREFIX,
            "log_connections": "on",
            "deadlock_timeout": f"{plan.circle:g}s",
            "synchronous_commit": "off",
            "track_activity_query_size": "4096",
        }
    return _MYSQL if plan.database == "mysql" else _REAL
