"""A private PostgreSQL server: real, thrown away afterwards, and stopped whatever happens.

The tests, the chaos run and the benchmarks share it. It listens on a free port of 127.0.0.1, keeps
its files in a temporary directory and runs as an unprivileged user when it is started by root.
`python -m tests.support.postgresql` runs one until Ctrl-C.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import secrets
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import psycopg
from psycopg import sql

from tests.support.binaries import find_server
from tests.support.servers import (
    DEADLINE,
    Command,
    PrivateServer,
    ServerFailed,
    serve,
    unprivileged,
)

StopMode = Literal["smart", "fast", "immediate"]

_USER = "postgres"
_SIGNALS: dict[StopMode, signal.Signals] = {
    "smart": signal.SIGTERM,
    "fast": signal.SIGINT,
    "immediate": signal.SIGQUIT,
}


class PostgresServer(PrivateServer):
    """One private cluster. Use it as a context manager, or `start()` it and `stop()` it.

    `settings` are server parameters by name, such as `{"fsync": "off"}`; durability is PostgreSQL's
    default unless given otherwise. Starting twice and stopping twice are harmless.
    """

    name = "PostgreSQL"
    pid_file = "data/postmaster.pid"
    at_once = _SIGNALS["immediate"]
    refusals = psycopg.OperationalError

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        super().__init__()
        self._settings = dict(settings or {})
        self._password = secrets.token_urlsafe(12)
        self._binaries = Path()

    def url(self, database: str = "postgres", driver: str | None = "psycopg") -> str:
        """Return the SQLAlchemy URL of `database` for `driver`, or a plain libpq one for None."""
        scheme = f"postgresql+{driver}" if driver else "postgresql"
        return f"{scheme}://{_USER}:{self._password}@127.0.0.1:{self.port}/{database}"

    def stop(self, mode: StopMode = "fast") -> None:
        """Stop the server and keep its files, so that it can start again on the same port."""
        self._end(_SIGNALS[mode])

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

    def create_database(self, template: str = "template0") -> str:
        """Create a database from `template`, which must have no connections; return its name."""
        name = f"mutirao_{next(self._names)}"
        statement = sql.SQL("create database {} template {}")
        self._administer(statement.format(sql.Identifier(name), sql.Identifier(template)))
        return name

    def drop_database(self, name: str) -> None:
        """Drop the database `name`, and end all connections to it."""
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

    def _make(self) -> None:
        self._make_directory()
        password = self.directory / "password"
        password.write_text(self._hash())
        run_as = unprivileged()
        if run_as:
            os.chown(password, run_as["user"], run_as["group"])
        self._initdb(password)
        password.unlink()

    def _hash(self) -> str:
        """Return what the server keeps of the password: SCRAM takes half of a connection's time."""
        salted = f"{self._password}{_USER}".encode()
        return f"md5{hashlib.md5(salted, usedforsecurity=False).hexdigest()}"

    def _make_directory(self) -> None:
        self._binaries = find_server()
        super()._make_directory()

    def _initdb(self, password: Path) -> None:
        self._run(
            self._binaries / "initdb",
            *("--pgdata", self.directory / "data"),
            *("--username", _USER, "--pwfile", password, "--auth", "password"),
            *("--encoding", "UTF8", "--locale", "C", "--no-sync"),
        )

    def _copy(self, primary: PostgresServer) -> None:
        self._run(
            self._binaries / "pg_basebackup",
            *("--pgdata", self.directory / "data", "--dbname", primary.url(driver=None)),
            *("--checkpoint", "fast", "--write-recovery-conf", "--no-sync"),
        )

    def _wait_for_follower(self) -> None:
        deadline = time.monotonic() + DEADLINE
        follows = "select from pg_stat_replication where state = 'streaming'"
        with self.connect() as connection:
            while connection.execute(follows).fetchone() is None:
                if time.monotonic() > deadline:
                    raise ServerFailed(self._explain("No standby follows it."))
                time.sleep(0.05)

    def _command(self) -> Command:
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": str(self.directory),
            **self._settings,
        }
        return [
            self._binaries / "postgres",
            *("-D", self.directory / "data"),
            *itertools.chain.from_iterable(("-c", f"{k}={v}") for k, v in settings.items()),
        ]


def main() -> None:
    """Run a server, print its URL, and stop it at Ctrl-C or SIGTERM."""
    server = PostgresServer()
    serve(server, server.url)


if __name__ == "__main__":
    main()
