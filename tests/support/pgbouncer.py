"""A private PgBouncer in front of a private server, stopped by its starter."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
from sqlalchemy import URL, make_url

from tests.support.binaries import find_pgbouncer
from tests.support.servers import ServerFailed, free_port, unprivileged

_DEADLINE = 60.0


@contextlib.contextmanager
def pgbouncer(url: str, servers: int = 3, *, in_turn: bool = False) -> Iterator[URL]:
    """Run a pooler in transaction mode in front of the database at `url`; give its URL.

    `servers`: the number of connections to the database that it shares among its clients.
    `in_turn`: all are open, and each transaction gets the next one, so that what was prepared on
    one is certainly missed on another. As it is, a client may always get the same.
    """
    behind = make_url(url)
    with tempfile.TemporaryDirectory(prefix="mutirao-pgbouncer-") as name:
        front = behind.set(port=free_port())
        _configure(Path(name), behind, front, servers, in_turn)
        process = subprocess.Popen(
            [find_pgbouncer(), Path(name) / "pgbouncer.ini"],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,  # the same is in its log
            start_new_session=True,
            **unprivileged(),
        )
        try:
            _wait_until_ready(front, process, Path(name) / "log")
            _open_all(front, servers if in_turn else 0)
            yield front
        finally:
            process.kill()
            process.wait()


def _configure(directory: Path, behind: URL, front: URL, servers: int, in_turn: bool) -> None:
    (directory / "users").write_text(f'"{behind.username}" "{behind.password}"\n')
    (directory / "pgbouncer.ini").write_text(
        f"""[databases]
* = host={behind.host} port={behind.port}
[pgbouncer]
listen_addr = {front.host}
listen_port = {front.port}
unix_socket_dir =
auth_type = plain
auth_file = {directory}/users
logfile = {directory}/log
pool_mode = transaction
default_pool_size = {servers}
server_round_robin = {in_turn:d}
"""
    )
    if run_as := unprivileged():
        for path in (directory, *directory.iterdir()):
            os.chown(path, run_as["user"], run_as["group"])


def _connect(front: URL) -> psycopg.Connection:
    text = front.set(drivername="postgresql").render_as_string(hide_password=False)
    return psycopg.connect(text, connect_timeout=10)


def _open_all(front: URL, servers: int) -> None:
    with contextlib.ExitStack() as transactions:
        for _ in range(servers):
            transactions.enter_context(_connect(front)).execute("SELECT 1")


def _wait_until_ready(front: URL, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _DEADLINE
    while True:
        try:
            _connect(front).close()
        except psycopg.OperationalError as error:
            if process.poll() is not None or time.monotonic() > deadline:
                said = log.read_text() if log.exists() else ""
                raise ServerFailed(f"PgBouncer does not answer: {error}\n{said}") from error
            time.sleep(0.05)
        else:
            return
