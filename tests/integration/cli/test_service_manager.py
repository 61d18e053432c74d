"""A worker under systemd: what it tells a real `NOTIFY_SOCKET`, and when it is silent."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

import pytest

from tests.integration.cli.conftest import Shell
from tests.integration.cli.test_worker import DEADLINE, Worker, working
from tests.support.waiting import wait_until

EVERY = 0.1  # seconds between two signs of life, of which systemd wants one in twice as long

BLOCKS = """
import os, time
from pathlib import Path

@app.task
async def block() -> None:
    Path("begun").write_text(",".join(sorted(each for each in os.environ if "WATCHDOG" in each
                                      or "NOTIFY" in each)))
    while not Path("gate").exists():
        time.sleep(0.01)  # in the event loop
"""


class Manager:
    """Systemd, as far as a service sees it."""

    def __init__(self, path: Path) -> None:
        self.line = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.line.bind(str(path))
        self.line.settimeout(DEADLINE)
        self.variables = {"NOTIFY_SOCKET": str(path), "WATCHDOG_USEC": str(int(2e6 * EVERY))}

    def wait_for(self, state: str) -> None:
        """Wait until it is told of a state."""
        while self.line.recv(4096).decode() != state:
            pass

    def hears(self, seconds: float) -> list[str]:
        """Return what it hears within so many seconds."""
        heard, end = [], monotonic() + seconds
        while (left := end - monotonic()) > 0:
            self.line.settimeout(left)
            try:
                heard.append(self.line.recv(4096).decode())
            except TimeoutError:
                break
        self.line.settimeout(DEADLINE)
        return heard


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    """Systemd."""
    made = Manager(tmp_path / "notify")
    with made.line:
        yield made


@contextmanager
def blocking(shell: Shell, manager: Manager, *options: str) -> Iterator[Worker]:
    """Start a worker under systemd that can run a job which blocks its event loop."""
    shop = shell.directory / "shop.py"
    shop.write_text(shop.read_text() + BLOCKS)
    with working(shell, "--poll", "0.1", *options, **manager.variables) as worker:
        yield worker


def test_a_worker_under_systemd(sqlite_shell: Shell, manager: Manager) -> None:
    """It is ready, lives, is silent while its event loop is stuck, lives again, and stops."""
    here = sqlite_shell.directory
    with blocking(sqlite_shell, manager) as worker:
        manager.wait_for("READY=1")
        manager.wait_for("WATCHDOG=1")
        sqlite_shell.ok("enqueue", "shop:app", "block")
        wait_until(lambda: (here / "begun").exists())
        manager.hears(2 * EVERY)  # what was told before it began
        assert manager.hears(10 * EVERY) == []
        (here / "gate").touch()
        manager.wait_for("WATCHDOG=1")
        assert worker.end() == 0
        manager.wait_for("STOPPING=1")
    assert (here / "begun").read_text() == ""  # what it starts does not answer in its place


@pytest.mark.repeats(decided="tests/integration/cli/test_service_manager.py")
def test_several_processes_under_systemd(sqlite_shell: Shell, manager: Manager) -> None:
    """The one that systemd has started answers for them."""
    variables = {**manager.variables, "WATCHDOG_PID": "1"}  # signs of life of another one
    manager.variables = variables
    with blocking(sqlite_shell, manager, "--processes", "2") as worker:
        manager.wait_for("READY=1")
        for _ in range(2):
            worker.wait_for(lambda record: record.get("event") == "worker.started")
        assert worker.end() == 0
    assert manager.hears(EVERY) == ["STOPPING=1"]


def test_a_manager_that_is_gone(sqlite_shell: Shell, manager: Manager, tmp_path: Path) -> None:
    """It is said once, and the worker works on."""
    (tmp_path / "notify").unlink()
    with blocking(sqlite_shell, manager) as worker:
        worker.wait_for_message("systemd cannot be sent WATCHDOG=1: [Errno 2] No such file")
        sqlite_shell.ok("enqueue", "shop:app", "send")
        worker.wait_for(lambda record: record.get("outcome") == "succeeded")
        assert worker.end() == 0
    assert sum("systemd" in each["message"] for each in worker.log) == 1
