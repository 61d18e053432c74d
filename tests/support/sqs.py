"""A server with the interface of SQS: moto's, as a process of its own."""

from __future__ import annotations

import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tests.support.servers import free_port
from tests.support.waiting import wait_until

USUAL = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}

# Its standard input is a pipe that we hold: it closes when we end, even by SIGKILL.
_WATCHDOG = 'read -r _; kill -KILL "$1" 2>/dev/null'


@contextmanager
def moto_server() -> Iterator[str]:
    """Run one on a free port; yields its URL. It ends when this process does, however that ends."""
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    # Ctrl-C at the terminal is for us: we end it when we are done with it.
    process = subprocess.Popen(command, start_new_session=True, **quiet)  # type: ignore[call-overload]
    with process as server, _watched(server.pid):
        url = f"http://127.0.0.1:{port}"
        try:
            wait_until(lambda: _answers(url) or server.poll() is not None)
            assert server.poll() is None, f"moto ended with {server.returncode}"
            yield url
        finally:
            server.kill()


@contextmanager
def _watched(pid: int) -> Iterator[None]:
    """Have a process killed if this one ends inside the block."""
    with subprocess.Popen(
        ["/bin/sh", "-c", _WATCHDOG, "watchdog", str(pid)],
        stdin=subprocess.PIPE,
        start_new_session=True,
    ) as watchdog:
        try:
            yield
        finally:
            watchdog.kill()


def _answers(url: str) -> bool:
    with suppress(OSError):
        return bool(urllib.request.urlopen(f"{url}/moto-api/", timeout=5).status == 200)  # noqa: S310
    return False
