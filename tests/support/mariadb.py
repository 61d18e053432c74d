"""A private MariaDB server: real, thrown away afterwards, and stopped whatever happens.

It listens on a free port of 127.0.0.1, keeps its files in a temporary directory and runs as an
unprivileged user when it is started by root. `python -m tests.support.mariadb` runs one until
Ctrl-C. `MUTIRAO_TEST_MYSQL_URL` names a server that is there already, MySQL or MariaDB, where the
tests make databases of their own, and drop them.
"""

from __future__ import annotations

import os
import shutil
import signal
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from types import MappingProxyType
from typing import Any
from unittest.mock import patch

import pymysql
from pymysql.cursors import Cursor
from sqlalchemy import make_url

from mutirao.errors import ConfigurationError
from mutirao.sql import migrations
from mutirao.sql.dialects import singlestore
from mutirao.sql.schema.tables import metadata
from tests.support.binaries import find_mariadb
from tests.support.servers import Command, PrivateServer, serve

_USER, _PASSWORD = "root", "open-sesame"  # of a server that only this machine reaches
# Its data need not survive a power cut, only what the tests do to it. All else is as usual.
_FAST = {
    "innodb-flush-log-at-trx-commit": "0",
    "innodb-buffer-pool-size": "64M",
    "innodb-log-file-size": "32M",
    "max-allowed-packet": "4M",
    "performance-schema": "OFF",
}


GIVEN = "MUTIRAO_TEST_MYSQL_URL"


class MysqlServer(ABC):
    """What the tests need of a server."""

    prefix = "mutirao_"

    def __init__(self) -> None:
        super().__init__()
        self.databases: set[str] = set()
        self._numbers = count(1)

    @abstractmethod
    def url(self, database: str, driver: str = "mysql+pymysql") -> str:
        """Return the SQLAlchemy URL of `database`."""

    @abstractmethod
    def connect(self, database: str | None = None, **options: Any) -> pymysql.Connection[Cursor]:
        """Return a connection of PyMySQL, in autocommit mode unless `options` say otherwise."""

    def create_database(self) -> str:
        """Create an empty database; return its name."""
        name = f"{self.prefix}{next(self._numbers)}"
        self._say(f"CREATE DATABASE {name}")
        self.databases.add(name)
        return name

    def make_tables(self, database: str) -> None:
        """Make Mutirão's tables in a database that was created."""
        migrations.upgrade(self.url(database))

    def drop_database(self, name: str) -> None:
        """Drop a database that was created."""
        self._say(f"DROP DATABASE {name}")
        self.databases.remove(name)

    def _say(self, statement: str) -> None:
        with self.connect() as connection, connection.cursor() as cursor:
            cursor.execute(statement)


@contextmanager
def mysql_server() -> Iterator[MysqlServer]:
    """Lend the server that is given, or else one of our own."""
    if GIVEN in os.environ:
        with given_server() as given:
            yield given
    else:
        with MariadbServer() as own:
            yield own


@contextmanager
def given_server() -> Iterator[MysqlServer]:
    """Lend the server that the environment names, and drop what was made there."""
    server = GivenServer(os.environ[GIVEN])
    try:
        with server.let_in():
            yield server
    finally:
        for name in sorted(server.databases):
            server.drop_database(name)


class GivenServer(MysqlServer):
    """A server that runs elsewhere, at a URL of any driver; its user may make databases."""

    prefix = f"mutirao_test_{os.getpid()}_"

    def __init__(self, url: str) -> None:
        super().__init__()
        self._url = make_url(url)
        self._refused = False

    @contextmanager
    def let_in(self) -> Iterator[None]:
        """Let the suite try a server that everybody else is refused: SingleStore."""
        with self.connect() as connection, ExitStack() as patches:
            try:
                singlestore.refuse(connection)
            except ConfigurationError:
                self._refused = True
                patches.enter_context(patch.object(singlestore, "refuse", lambda connection: None))
            yield

    def make_tables(self, database: str) -> None:
        """Make them by the script for SingleStore where it is one, which `migrate` refuses."""
        if not self._refused:
            super().make_tables(database)
            return
        with self.connect(database) as connection, connection.cursor() as cursor:
            for statement in migrations.ddl("singlestore").split(";\n"):
                if statement.strip():
                    cursor.execute(statement)

    def url(self, database: str, driver: str = "mysql+pymysql") -> str:
        """Return the SQLAlchemy URL of `database`."""
        url = self._url.set(drivername=driver, database=database)
        return url.render_as_string(hide_password=False)

    def connect(self, database: str | None = None, **options: Any) -> pymysql.Connection[Cursor]:
        """Return a connection of PyMySQL, in autocommit mode unless `options` say otherwise."""
        url = self._url
        return pymysql.connect(
            host=url.host or "127.0.0.1",
            port=url.port or 3306,
            database=database,
            **{"user": url.username, "password": url.password or "", "autocommit": True} | options,
        )


class LocalServer(MysqlServer, PrivateServer):
    """One private server, of either product.

    Parameters:
        settings: of the server, beside those by which it is one of ours.
    """

    pid_file = "pid"
    at_once = signal.SIGKILL
    refusals = pymysql.MySQLError

    def __init__(self, settings: Mapping[str, str]) -> None:
        super().__init__()
        self._settings = settings

    def url(self, database: str, driver: str = "mysql+pymysql") -> str:
        """Return the SQLAlchemy URL of `database`."""
        return f"{driver}://{_USER}:{_PASSWORD}@127.0.0.1:{self.port}/{database}"

    def connect(self, database: str | None = None, **options: Any) -> pymysql.Connection[Cursor]:
        """Return a connection of PyMySQL, in autocommit mode unless `options` say otherwise."""
        usual: dict[str, Any] = {"user": _USER, "password": _PASSWORD, "autocommit": True}
        return pymysql.connect(
            host="127.0.0.1", port=self.port, database=database, **usual | options
        )

    def _write_user(self) -> None:
        (self.directory / "user.sql").write_text(
            f"ALTER USER '{_USER}'@'localhost' IDENTIFIED BY '{_PASSWORD}';\n"
        )

    def _everywhere(self) -> dict[str, object]:
        """Return the options of each server of ours."""
        here = self.directory
        return {
            "socket": here / "socket",
            "pid-file": here / "pid",
            "init-file": here / "user.sql",
            "bind-address": "127.0.0.1",
            "port": self.port,
        }


class MariadbServer(LocalServer):
    """One private server. Use it as a context manager.

    Parameters:
        settings: instead of those by which it is fast, and forgets what a power cut may cost.
    """

    name = "MariaDB"

    def __init__(self, settings: Mapping[str, str] = MappingProxyType(_FAST)) -> None:
        super().__init__(settings)

    def _make(self) -> None:
        """Make the system's tables, and the user."""
        self._program = find_mariadb()
        self._make_directory()
        self._run(
            *self._installer(),
            *("--auth-root-authentication-method=normal", "--skip-test-db"),
            f"--datadir={self.directory / 'data'}",
        )
        self._write_user()

    def _installer(self) -> list[str | Path]:
        """Return the command that makes the system's tables, with the files of that server."""
        if found := shutil.which("mariadb-install-db", path=self._home() / "bin"):
            return [found, "--no-defaults", f"--basedir={self._home()}"]
        return ["mariadb-install-db", "--no-defaults"]

    def _home(self) -> Path:
        return self._program.parent.parent

    def _command(self) -> Command:
        here = self.directory
        places = {"basedir": self._home(), "datadir": here / "data", "tmpdir": here}
        settings = {**self._everywhere(), **places, **self._settings}
        options = [f"--{name}={value}" for name, value in settings.items()]
        return [self._program, "--no-defaults", *options]


_FILLED = " UNION ALL ".join(
    f"SELECT '{name}' FROM (SELECT 1) one WHERE EXISTS (SELECT 1 FROM {name})"  # noqa: S608
    for name in metadata.tables
)
_JOBS = "mutirao_job"


def empty(connection: pymysql.Connection[Cursor]) -> None:
    """Make a set of jobs as empty as when its tables were made; `connection` commits by itself.

    Deletes: to truncate makes a new file for each table. But the numbers of jobs start again.
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
