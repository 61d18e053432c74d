"""A private MySQL Router in front of a server, stopped by its starter.

It is fetched like the server (`tests.support.debian`), and runs with its own loader and libraries.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pymysql
import trustme
from pymysql.cursors import Cursor
from sqlalchemy import URL, make_url

from tests.support.debian import fetched
from tests.support.servers import ServerFailed, free_port, unprivileged

PACKAGE = "mysql-router"
_DEADLINE = 60.0


def command() -> list[str | Path]:
    """Return the command that is the program, without its options."""
    extracted = fetched(PACKAGE)
    [loader, _, libraries, program] = extracted.command("usr/bin/mysqlrouter")
    own = extracted.root / "usr/lib/mysql-router"
    return [loader, "--library-path", f"{libraries}:{own}", "--argv0", program, program]


def connected(front: URL) -> pymysql.Connection[Cursor]:
    """Return a connection to a server or a router."""
    return pymysql.connect(
        host=front.host or "",
        port=front.port or 0,
        user=front.username,
        password=front.password or "",
    )


@contextmanager
def mysql_router(url: str, *, shares: bool) -> Iterator[URL]:
    """Run a router in front of the database at `url`; give its URL.

    Parameters:
        shares: whether idle clients share one session of the server, which the router sets up
            again for each that says something. Only over TLS: it has to know their passwords.
    """
    behind = make_url(url)
    front = behind.set(host="127.0.0.1", port=free_port())
    with tempfile.TemporaryDirectory(prefix="mutirao-router-") as name:
        _configure(Path(name), behind, front, shares)
        with (Path(name) / "log").open("wb") as log:
            process = subprocess.Popen(
                [*command(), "-c", Path(name) / "conf"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                **unprivileged(),
            )
        try:
            _wait_until_ready(front, process, Path(name) / "log")
            yield front
        finally:
            process.kill()
            process.wait()


def _configure(directory: Path, behind: URL, front: URL, shares: bool) -> None:
    # Clients without TLS encrypt their passwords by its key.
    certificate = trustme.CA().issue_cert("127.0.0.1", key_type=trustme.KeyType.RSA)
    certificate.private_key_and_cert_chain_pem.write_to_path(directory / "key.pem")
    (directory / "conf").write_text(
        f"""[DEFAULT]
logging_folder =
runtime_folder = {directory}
data_folder = {directory}
plugin_folder = {fetched(PACKAGE).root}/usr/lib/mysqlrouter/plugin
[connection_pool]
max_idle_server_connections = 1
[routing:front]
bind_address = 127.0.0.1
bind_port = {front.port}
destinations = {behind.host}:{behind.port or 3306}
routing_strategy = first-available
protocol = classic
client_ssl_mode = PREFERRED
client_ssl_cert = {directory}/key.pem
client_ssl_key = {directory}/key.pem
server_ssl_mode = PREFERRED
connection_sharing = {shares:d}
connection_sharing_delay = 0
"""
    )
    if run_as := unprivileged():
        for path in (directory, *directory.iterdir()):
            os.chown(path, run_as["user"], run_as["group"])


def _wait_until_ready(front: URL, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _DEADLINE
    while True:
        try:
            connected(front).close()
        except pymysql.MySQLError as error:
            if process.poll() is not None or time.monotonic() > deadline:
                raise ServerFailed(
                    f"MySQL Router does not answer: {error}\n{log.read_text()}"
                ) from error
            time.sleep(0.05)
        else:
            return
