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


@contextmanager
def moto_server() -> Iterator[str]:
    """Run one on a free port; yields its URL."""
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, **quiet) as server:  # type: ignore[call-overload]
        url = f"http://127.0.0.1:{port}"
        try:
            wait_until(lambda: _answers(url) or server.poll() is not None)
            assert server.poll() is None, f"moto ended with {server.returncode}"
            yield url
        finally:
            server.kill()


def _answers(url: str) -> bool:
    with suppress(OSError):
        return bool(urllib.request.urlopen(f"{url}/moto-api/", timeout=5).status == 200)  # noqa: S310
    return False
