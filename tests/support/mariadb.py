"""A private MariaDB server: real, thrown away afterwards, and stopped whatever happens.

It listens on a free port of 127.0.0.1, keeps its files in a temporary directory and runs as an
unprivileged user when it is started by root. `python -m tests.support.mariadb` runs one until
Ctrl-C.
"""

from __future__ import annotations

import signal
from typing import Any

import pymysql
from pymysql.cursors import Cursor

from mutirao.sql.schema.tables import metadata
from tests.support.binaries import find_mariadb
from tests.support.servers import Command, PrivateServer, serve

_USER, _PASSWORD = "root", "mutirao"  # of a server that only this machine reaches
# Its data need not survive a power cut, only what the tests do to it. All else is as usual.
_FAST = {
    "innodb-flush-log-at-trx-commit": "0",
    "innodb-buffer-pool-size": "64M",
    "innodb-log-file-size": "32M",
    "performance-schema": "OFF",
}


class MariadbServer(PrivateServer):
    """One private server. Use it as a context manager."""

    name = "MariaDB"
    pid_file = "pid"
    at_once = signal.SIGKILL
    refusals = pymysql.MySQLError

    def url(self, database: str, driver: str = "mysql+pymysql") -> str:
        """Return the SQLAlchemy URL of `database`."""
        return f"{driver}://{_USER}:{_PASSWORD}@127.0.0.1:{self.port}/{database}"

    def connect(self, database: str | None = None, **options: Any) -> pymysql.Connection[Cursor]:
        """Return a connection of PyMySQL, in autocommit mode unless `options` say otherwise."""
        usual: dict[str, Any] = {"user": _USER, "password": _PASSWORD, "autocommit": True}
        return pymysql.connect(
            host="127.0.0.1", port=self.port, database=database, **usual | options
        )

    def create_database(self) -> str:
        """Create an empty database; return its name."""
        name = f"mutirao_{next(self._names)}"
        with self.connect() as connection, connection.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE {name}")
        return name

    def _make(self) -> None:
        """Make the system's tables, and the user."""
        self._program = find_mariadb()
        self._make_directory()
        self._run(
            "mariadb-install-db",
            "--no-defaults",
            *("--auth-root-authentication-method=normal", "--skip-test-db"),
            f"--datadir={self.directory / 'data'}",
        )
        (self.directory / "user.sql").write_text(
            f"ALTER USER '{_USER}'@'localhost' IDENTIFIED BY '{_PASSWORD}';\n"
        )

    def _command(self) -> Command:
        here = self.directory
        settings = {
            "datadir": here / "data",
            "socket": here / "socket",
            "pid-file": here / "pid",
            "init-file": here / "user.sql",
            "tmpdir": here,
            "bind-address": "127.0.0.1",
            "port": self.port,
            **_FAST,
        }
        options = [f"--{name}={value}" for name, value in settings.items()]
        return [self._program, "--no-defaults", *options]


_FILLED = " UNION ALL ".join(
    f"SELECT '{name}' FROM (SELECT 1) one WHERE EXISTS (SELECT 1 FROM {name})"  # noqa: S608
    for name in metadata.tables
)
_JOBS = "mutirao_job"


def empty(connection: pymysql.Connection[Cursor]) -> None:
    """Make a set of jobs as empty as when its tables were made; `connection` commits by itself.

    Deletes: to truncate makes a new file for each table. But the numbers of jobs begin anew.
    """
    with connection.cursor() as cursor:
        cursor.execute(_FILLED)
        filled = {name for (name,) in cursor.fetchall()}
        if _JOBS in filled:
            cursor.execute(f"TRUNCATE {_JOBS}")
        connection.begin()
        # Triggers write down what is deleted, in a table that is emptied last.
        for name in [*sorted(filled - {_JOBS}), "mutirao_kept"]:
            cursor.execute(f"DELETE FROM {name}")  # noqa: S608
        connection.commit()


def main() -> None:
    """Run a server, print the URL of an empty database, and stop it at Ctrl-C or SIGTERM."""
    server = MariadbServer()
    serve(server, lambda: server.url(server.create_database()))


if __name__ == "__main__":
    main()
