"""A private PostgreSQL server: real, thrown away afterwards, and stopped whatever happens.

The tests, the chaos run and the benchmarks share it. It listens on a free port of 127.0.0.1, keeps
its files in a temporary directory and runs as an unprivileged user when it is started by root.
`python -m tests.support.postgresql` runs one until Ctrl-C.
"""

from __future__ import annotations

import atexit
import itertools
import os
import pwd
import random
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, Self, TypedDict

import psycopg
from psycopg import sql

from tests.support.binaries import find_server

StopMode = Literal["smart", "fast", "immediate"]

_SIGNALS: dict[StopMode, signal.Signals] = {
    "smart": signal.SIGTERM,
    "fast": signal.SIGINT,
    "immediate": signal.SIGQUIT,
}
_DEADLINE = 60.0
# Below the range that systems give to outgoing connections: a client that knocks again and again
# while the server restarts could otherwise be given the very port it knocks at.
_PORTS = range(20_000, 30_000)

# Its standard input is a pipe that we hold: it closes when we end, even by SIGKILL.
_WATCHDOG = """
while read -r _; do :; done
pid=$(head -n 1 "$1/data/postmaster.pid" 2>/dev/null) && kill -QUIT "$pid"
while [ -n "$pid" ] && kill -0 "$pid" 2>/dev/null; do sleep 0.1; done
rm -rf "$1"
"""


class ServerFailed(Exception):
    """The server did not start or did not stop; the message ends with its log."""


class RunAs(TypedDict, total=False):
    """Whom to run a program as."""

    user: int
    group: int
    extra_groups: list[int]


class PostgresServer:
    """One private cluster. Use it as a context manager, or `start()` it and `stop()` it.

    `settings` are server parameters by name, such as `{"fsync": "off"}`; durability is PostgreSQL's
    default unless told otherwise. Starting twice and stopping twice are harmless.
    """

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        self._settings = dict(settings or {})
        self._password = secrets.token_urlsafe(12)
        self._names = itertools.count(1)
        self._owner = os.getpid()
        self._directory: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._watchdog: subprocess.Popen[bytes] | None = None
        self._binaries = Path()
        self.port = 0

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """The process id of the running server. Raises `ServerFailed` where none runs."""
        if self._process is None:
            raise ServerFailed("The server is not running: start() it first.")
        return self._process.pid

    @property
    def directory(self) -> Path:
        """The temporary directory of the cluster: `data`, `log` and the Unix socket."""
        if self._directory is None:
            raise ServerFailed("The server has no directory: start() it first.")
        return self._directory

    def url(self, database: str = "postgres", driver: str | None = "psycopg") -> str:
        """Return the SQLAlchemy URL of `database` for `driver`, or a plain libpq one for None."""
        scheme = f"postgresql+{driver}" if driver else "postgresql"
        return f"{scheme}://postgres:{self._password}@127.0.0.1:{self.port}/{database}"

    def start(self) -> None:
        """Start the server, making the cluster first if need be, and wait until it answers."""
        if self._process is not None:
            return
        if self._directory is None:
            self._make_cluster()
        try:
            self._launch()
            self._wait_until_ready()
        except BaseException:
            self.close()
            raise

    def stop(self, mode: StopMode = "fast") -> None:
        """Stop the server and keep its files, so that it can start again on the same port."""
        if self._process is None:
            return
        self._process.send_signal(_SIGNALS[mode])
        try:
            self._process.wait(_DEADLINE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise ServerFailed(self._explain(f"It did not stop within {_DEADLINE} s.")) from None
        finally:
            self._process = None

    def restart(self, mode: StopMode = "fast") -> None:
        """Stop the server and start it again; "immediate" is a crash that it recovers from."""
        self.stop(mode)
        self.start()

    def standby(self) -> PostgresServer:
        """Return another server, started: it follows this one in recovery, and has caught up."""
        follower = PostgresServer(self._settings)
        follower._password = self._password
        follower._make_directory()
        try:
            follower._copy(self)
            follower.start()
            self._wait_for_follower()
        except BaseException:
            follower.close()
            raise
        return follower

    @contextmanager
    def read_only(self) -> Iterator[None]:
        """Let nothing be written on the whole server."""
        with self.connect() as administrator:
            try:
                administrator.execute("ALTER SYSTEM SET default_transaction_read_only = on")
                administrator.execute("SELECT pg_reload_conf()")
                yield
            finally:
                administrator.execute("SET transaction_read_only = off")
                administrator.execute("ALTER SYSTEM RESET default_transaction_read_only")
                administrator.execute("SELECT pg_reload_conf()")

    def promote(self) -> None:
        """End the recovery: a standby becomes a server that writes."""
        with self.connect() as connection:
            connection.execute("select pg_promote(true, 60)")

    def close(self) -> None:
        """Stop the server at once and remove its directory."""
        # A forked child inherits this object and our exit handlers; the server is not its own.
        if self._directory is None or os.getpid() != self._owner:
            return
        try:
            self.stop("immediate")
        finally:
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory = None
            atexit.unregister(self.close)
            self._dismiss_watchdog()

    def create_database(self, template: str = "template0") -> str:
        """Create a database from `template`, to which nobody may be connected; return its name."""
        name = f"mutirao_{next(self._names)}"
        statement = sql.SQL("create database {} template {}")
        self._administer(statement.format(sql.Identifier(name), sql.Identifier(template)))
        return name

    def drop_database(self, name: str) -> None:
        """Drop the database `name`, throwing out whoever is connected to it."""
        statement = sql.SQL("drop database if exists {} with (force)")
        self._administer(statement.format(sql.Identifier(name)))

    @contextmanager
    def database(self, template: str = "template0") -> Iterator[str]:
        """Lend the name of a database made from `template`; drop it afterwards."""
        name = self.create_database(template)
        try:
            yield name
        finally:
            self.drop_database(name)

    def connect(self, database: str = "postgres", **options: Any) -> psycopg.Connection:
        """Return a psycopg connection to `database`, in autocommit mode."""
        url = self.url(database, driver=None)
        return psycopg.connect(url, autocommit=True, connect_timeout=60, **options)

    def _administer(self, statement: sql.Composed) -> None:
        with self.connect() as connection:
            connection.execute(statement)

    def _make_cluster(self) -> None:
        self._make_directory()
        password = self.directory / "password"
        password.write_text(self._password)
        run_as = unprivileged()
        if run_as:
            os.chown(password, run_as["user"], run_as["group"])
        self._initdb(password)
        password.unlink()

    def _make_directory(self) -> None:
        self._binaries = find_server()
        self._directory = Path(tempfile.mkdtemp(prefix="mutirao-pg-"))
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

    def _initdb(self, password: Path) -> None:
        self._run(
            "initdb",
            *("--pgdata", self.directory / "data"),
            *("--username", "postgres", "--pwfile", password, "--auth", "password"),
            *("--encoding", "UTF8", "--locale", "C", "--no-sync"),
        )

    def _copy(self, primary: PostgresServer) -> None:
        self._run(
            "pg_basebackup",
            *("--pgdata", self.directory / "data", "--dbname", primary.url(driver=None)),
            *("--checkpoint", "fast", "--write-recovery-conf", "--no-sync"),
        )

    def _wait_for_follower(self) -> None:
        deadline = time.monotonic() + _DEADLINE
        follows = "select from pg_stat_replication where state = 'streaming'"
        with self.connect() as connection:
            while connection.execute(follows).fetchone() is None:
                if time.monotonic() > deadline:
                    raise ServerFailed(self._explain("No standby follows it."))
                time.sleep(0.05)

    def _run(self, program: str, *arguments: str | Path) -> None:
        ran = subprocess.run(
            [self._binaries / program, *arguments],
            cwd=self.directory,
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            **unprivileged(),
        )
        if ran.returncode != 0:
            self.close()
            raise ServerFailed(f"{program} failed with {ran.returncode} and said:\n{ran.stdout}")

    def _launch(self) -> None:
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": str(self.directory),
            **self._settings,
        }
        with (self.directory / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    self._binaries / "postgres",
                    *("-D", self.directory / "data"),
                    *itertools.chain.from_iterable(("-c", f"{k}={v}") for k, v in settings.items()),
                ],
                cwd=self.directory,
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
            except psycopg.OperationalError as error:
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
        log = (self.directory / "log").read_text(errors="replace").splitlines()
        return "\n".join(["The PostgreSQL server failed. " + what + " Its log ends:", *log[-20:]])

    def _dismiss_watchdog(self) -> None:
        if self._watchdog is not None:
            self._watchdog.communicate()
            self._watchdog = None


def unprivileged() -> RunAs:
    """Return whom to run as when we are root, whom PostgreSQL refuses; otherwise nothing."""
    if os.geteuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        try:
            user = pwd.getpwnam(name)
        except KeyError:
            continue
        return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    raise ServerFailed(
        "PostgreSQL refuses to run as root, and there is no user postgres or nobody."
    )


def free_port() -> int:
    """Return a port of 127.0.0.1 on which nothing listens."""
    for port in random.sample(_PORTS, k=100):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise ServerFailed(f"None of 100 ports tried between {_PORTS[0]} and {_PORTS[-1]} is free.")


def main() -> None:
    """Run a server, print its URL, and stop it at Ctrl-C or SIGTERM."""
    for end in (signal.SIGINT, signal.SIGTERM):
        signal.signal(end, signal.default_int_handler)
    try:
        with PostgresServer() as server:
            print(server.url(), flush=True)
            while True:
                time.sleep(1)  # unlike a pause, it ends where a signal comes just before it
    except KeyboardInterrupt:
        print("stopped")


if __name__ == "__main__":
    main()
