"""A private MariaDB server: real, thrown away afterwards, and stopped whatever happens.

It listens on a free port of 127.0.0.1, keeps its files in a temporary directory and runs as an
unprivileged user when it is started by root. `python -m tests.support.mariadb` runs one until
Ctrl-C.
"""

from __future__ import annotations

import atexit
import itertools
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, Self

import pymysql
from pymysql.cursors import Cursor

from mutirao.sql.schema.tables import metadata
from tests.support.binaries import find_mariadb
from tests.support.postgresql import ServerFailed, free_port, unprivileged

_DEADLINE = 60.0
_USER, _PASSWORD = "root", "mutirao"  # of a server that only this machine reaches
# Its data need not survive a power cut, only what the tests do to it. All else is as usual.
_FAST = {
    "innodb-flush-log-at-trx-commit": "0",
    "innodb-buffer-pool-size": "64M",
    "innodb-log-file-size": "32M",
    "performance-schema": "OFF",
}

# Its standard input is a pipe that we hold: it closes when we end, even by SIGKILL.
_WATCHDOG = """
while read -r _; do :; done
pid=$(cat "$1/pid" 2>/dev/null) && kill -KILL "$pid"
while [ -n "$pid" ] && kill -0 "$pid" 2>/dev/null; do sleep 0.1; done
rm -rf "$1"
"""


class MariadbServer:
    """One private server. Use it as a context manager."""

    def __init__(self) -> None:
        self._names = itertools.count(1)
        self._owner = os.getpid()
        self._directory = Path()
        self._process: subprocess.Popen[bytes] | None = None
        self._watchdog: subprocess.Popen[bytes] | None = None
        self.port = 0

    def __enter__(self) -> Self:
        """Make the server, start it, and wait until it answers."""
        self._make_directory()
        try:
            self._install()
            self._launch()
            self._wait_until_ready()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

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

    def close(self) -> None:
        """Stop the server at once and remove its directory."""
        # A forked child inherits this object and our exit handlers; the server is not its own.
        if self._watchdog is None or os.getpid() != self._owner:
            return
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
        shutil.rmtree(self._directory, ignore_errors=True)
        atexit.unregister(self.close)
        self._watchdog.communicate()
        self._watchdog = None

    def _make_directory(self) -> None:
        self._program = find_mariadb()
        self._directory = Path(tempfile.mkdtemp(prefix="mutirao-mariadb-"))
        atexit.register(self.close)
        self._watchdog = subprocess.Popen(
            ["/bin/sh", "-c", _WATCHDOG, "watchdog", self._directory],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )
        run_as = unprivileged()
        if run_as:
            os.chown(self._directory, run_as["user"], run_as["group"])
        self.port = free_port()

    def _install(self) -> None:
        """Make the system's tables, and the user."""
        ran = subprocess.run(
            [
                "mariadb-install-db",
                "--no-defaults",
                *("--auth-root-authentication-method=normal", "--skip-test-db"),
                f"--datadir={self._directory / 'data'}",
            ],
            cwd=self._directory,
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            **unprivileged(),
        )
        if ran.returncode != 0:
            raise ServerFailed(f"mariadb-install-db failed with {ran.returncode}:\n{ran.stdout}")
        (self._directory / "user.sql").write_text(
            f"ALTER USER '{_USER}'@'localhost' IDENTIFIED BY '{_PASSWORD}';\n"
        )

    def _launch(self) -> None:
        here = self._directory
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
        with (here / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    self._program,
                    "--no-defaults",
                    *(f"--{name}={value}" for name, value in settings.items()),
                ],
                cwd=here,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # Ctrl-C at the terminal is for us: we stop the server when we are done with it.
                start_new_session=True,
                **unprivileged(),
            )

    def _wait_until_ready(self) -> None:
        if self._process is None:
            raise ServerFailed("The server was not launched.")
        deadline = time.monotonic() + _DEADLINE
        while True:
            try:
                self.connect().close()
            except pymysql.MySQLError as error:
                if time.monotonic() > deadline:
                    raise ServerFailed(self._explain(f"It does not answer: {error}")) from error
            else:
                return
            try:
                status = self._process.wait(0.05)
            except subprocess.TimeoutExpired:
                continue
            self._process = None
            raise ServerFailed(self._explain(f"It ended with status {status}."))

    def _explain(self, what: str) -> str:
        log = (self._directory / "log").read_text(errors="replace").splitlines()
        return "\n".join(["The MariaDB server failed. " + what + " Its log ends:", *log[-20:]])


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
    for end in (signal.SIGINT, signal.SIGTERM):
        signal.signal(end, signal.default_int_handler)
    try:
        with MariadbServer() as server:
            print(server.url(server.create_database()), flush=True)
            while True:
                time.sleep(1)  # unlike a pause, it ends where a signal comes just before it
    except KeyboardInterrupt:
        print("stopped")


if __name__ == "__main__":
    main()
