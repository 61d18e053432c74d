"""The private PostgreSQL server keeps its own promises: fresh databases, restarts, no leftovers."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import make_url

from tests.support import binaries, debian
from tests.support.postgresql import PostgresServer
from tests.support.servers import ServerFailed
from tests.support.waiting import wait_until

pytestmark = pytest.mark.repeats(decided="tests/support")


@pytest.fixture
def server() -> PostgresServer:
    """A server of the test's own, not started yet."""
    return PostgresServer({"fsync": "off"})


def test_databases_are_fresh_and_apart(postgres: PostgresServer) -> None:
    """What is written to one database is not seen in another, and is gone with it."""
    with postgres.database() as one, postgres.database() as other:
        with postgres.connect(one) as connection:
            connection.execute("create table thing ()")
        with postgres.connect(other) as connection:
            assert connection.execute("select to_regclass('thing')").fetchone() == (None,)
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        postgres.connect(one)


def test_a_database_starts_as_its_template(postgres: PostgresServer) -> None:
    """A database made from another one holds what that one held."""
    with postgres.database() as template:
        with postgres.connect(template) as connection:
            connection.execute("create table thing as select 7 as number")
        with postgres.database(template) as copy, postgres.connect(copy) as connection:
            assert connection.execute("select number from thing").fetchone() == (7,)


@pytest.mark.parametrize("driver", ["psycopg", "psycopg2", "asyncpg", None])
def test_the_url_names_driver_and_database(postgres: PostgresServer, driver: str | None) -> None:
    """The URL is one that SQLAlchemy reads, and that libpq reads where no driver is named."""
    url = make_url(postgres.url("shop", driver))
    assert url.drivername == (f"postgresql+{driver}" if driver else "postgresql")
    assert (url.host, url.port, url.database) == ("127.0.0.1", postgres.port, "shop")


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_a_restart_keeps_port_and_committed_data(server: PostgresServer, mode: str) -> None:
    """Clients find the server where it was, with what was committed, under another process id."""
    with server:
        before = (server.url(), server.pid)
        with server.connect() as connection:
            connection.execute("create table thing as select 7 as number")
            server.restart("immediate" if mode == "immediate" else "fast")
            with pytest.raises(psycopg.OperationalError):
                connection.execute("select 1")
        assert server.url() == before[0]
        assert server.pid != before[1]
        with server.connect() as connection:
            assert connection.execute("select number from thing").fetchone() == (7,)


def test_settings_reach_the_server(server: PostgresServer) -> None:
    """What was asked for is set; durability is PostgreSQL's own default where nothing was asked."""
    with server, server.connect() as connection:
        assert connection.execute("show fsync").fetchone() == ("off",)
        assert connection.execute("show synchronous_commit").fetchone() == ("on",)


def test_nothing_is_left_after_close(server: PostgresServer) -> None:
    """Closing stops the process and removes the files; closing twice is harmless."""
    with server:
        directory = server.directory
    server.close()
    assert not directory.exists()
    with pytest.raises(ServerFailed, match="not running"):
        _ = server.pid


def test_a_server_that_cannot_start_says_why() -> None:
    """The error carries the end of the server's log, and nothing is left behind."""
    server = PostgresServer({"no_such_setting": "1"})
    with pytest.raises(ServerFailed, match="no_such_setting"):
        server.start()
    with pytest.raises(ServerFailed, match="no directory"):
        _ = server.directory


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_the_server_does_not_outlive_its_owner(how: signal.Signals) -> None:
    """However the process that started it ends, the server is stopped and its files are removed."""
    owner = subprocess.Popen(
        [sys.executable, "-u", "-c", _OWNER], stdout=subprocess.PIPE, text=True
    )
    assert owner.stdout is not None
    directory, url = owner.stdout.readline().split()
    with psycopg.connect(url) as connection:
        owner.send_signal(how)
        owner.wait(100)
        # The watchdog holds the pipe open until it has cleaned up.
        owner.stdout.read()
        with pytest.raises(psycopg.OperationalError):
            connection.execute("select 1")
    assert not Path(directory).exists()
    owner.stdout.close()


_OWNER = """
import signal
import time
from tests.support.postgresql import PostgresServer
signal.signal(signal.SIGTERM, signal.default_int_handler)
with PostgresServer({"fsync": "off"}) as server:
    print(server.directory, server.url(driver=None))
    while True:
        time.sleep(1)
"""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_moto_does_not_outlive_its_owner(how: signal.Signals) -> None:
    """Nor does what stands for SQS, which is a program of somebody else's."""
    owner = subprocess.Popen(
        [sys.executable, "-u", "-c", _OWNER_OF_MOTO], stdout=subprocess.PIPE, text=True
    )
    assert owner.stdout is not None
    with owner.stdout:
        port = int(owner.stdout.readline())
        with socket.create_connection(("127.0.0.1", port), timeout=10):
            pass
        owner.send_signal(how)
        owner.wait(100)
        wait_until(lambda: _refuses(port))


def _refuses(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=10).close()
    except ConnectionRefusedError:
        return True
    return False


_OWNER_OF_MOTO = """
import time
from urllib.parse import urlsplit
from tests.support.sqs import moto_server
with moto_server() as url:
    print(urlsplit(url).port)
    while True:
        time.sleep(1)
"""


def test_a_missing_server_is_an_error_that_says_what_to_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where there is no server and none may be installed, the message holds one command."""
    monkeypatch.setattr(binaries, "_candidates", lambda: iter(()))
    monkeypatch.setattr(binaries, "_may_install", lambda: False)
    monkeypatch.setattr("shutil.which", lambda tool: f"/usr/bin/{tool}")
    with pytest.raises(binaries.ServerNotFound, match=r"Run: sudo apt-get install -y postgresql$"):
        binaries.find_server()


def test_a_failed_installation_says_which_command_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the package cannot be fetched, the error says so instead of going on without."""
    monkeypatch.setattr(binaries, "_candidates", lambda: iter(()))
    monkeypatch.setattr(binaries, "_may_install", lambda: True)
    monkeypatch.setattr(binaries, "_NO_CLUSTER", Path(os.devnull))
    monkeypatch.setenv("PATH", "")
    apt = subprocess.CompletedProcess[bytes](["apt-get"], returncode=100)
    monkeypatch.setattr("subprocess.run", lambda *_, **__: apt)
    with pytest.raises(binaries.ServerNotFound, match="'apt-get -q update' failed"):
        binaries.find_server()


def test_a_standby_follows_and_takes_over(server: PostgresServer) -> None:
    """It holds what was committed, refuses to write while it follows, and writes when promoted."""
    with server, server.standby() as standby:
        with server.connect() as connection:
            connection.execute("create table thing as select 7 as number")
        server.stop()
        with standby.connect() as connection:
            there = "select 1 from pg_class where relname = 'thing'"
            wait_until(lambda: connection.execute(there).fetchone())
            with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
                connection.execute("insert into thing values (8)")
            standby.promote()
            connection.execute("insert into thing values (8)")
            assert connection.execute("select sum(number) from thing").fetchone() == (15,)


def test_a_missing_faketime_is_an_error_that_says_what_to_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where the library is missing and may not be installed, the message holds one command."""
    monkeypatch.setattr(binaries, "_faketime", lambda: iter(()))
    monkeypatch.setattr(binaries, "_may_install", lambda: False)
    with pytest.raises(binaries.FaketimeNotFound, match=r"Run: sudo apt-get install -y libfaketim"):
        binaries.find_faketime()


def test_a_package_that_cannot_be_fetched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The error says what is missing or what failed, and nothing is left in the cache."""
    monkeypatch.setattr(debian, "cache", lambda: tmp_path)
    with monkeypatch.context() as without:
        without.setattr("shutil.which", lambda tool: None)
        with pytest.raises(debian.PackageNotFetched, match="apt-get is missing here"):
            debian.fetched("mysql-server-core")
    said = subprocess.CompletedProcess(["apt-get"], 100, stdout="E: no network")
    monkeypatch.setattr("shutil.which", lambda tool: tool)
    monkeypatch.setattr("subprocess.run", lambda *_, **__: said)
    with pytest.raises(debian.PackageNotFetched, match=r"'apt-get .*update' failed .*\nE: no net"):
        debian.fetched("mysql-server-core")
    assert [each.name for each in tmp_path.iterdir()] == ["mysql-server-core.lock"]


def test_packages_are_fetched_beside_those_of_the_machine(tmp_path: Path) -> None:
    """Whatever apt reads or writes of its own stands in the directory that it is given."""
    options = [*debian._own_configuration(tmp_path / "apt")]
    for name in ("State::Lists", "State::Status", "Cache::Archives", "Etc::SourceList"):
        found = subprocess.run(
            ["apt-config", *options, "shell", "FOUND", f"Dir::{name}/f"],
            check=True,
            capture_output=True,
            text=True,
        )
        assert found.stdout.startswith(f"FOUND='{tmp_path}/"), name
