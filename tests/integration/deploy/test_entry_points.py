"""Each program of `deploy/` starts as its file says, does well, and ends as its file expects.

No container engine is here: the commands of compose.yaml and of the image run in a directory that
has what the image has, with the image's variables and those of `.env.example`. Only addresses are
others: the database is that of the tests, and ports are free ones.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
import yaml

from mutirao.cli.probing.probe import OF_A_WORKER
from tests.support.servers import free_port
from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy"
DEADLINE = 60.0
PORTS = re.compile(r"\b(?:9464|8765|8770)\b")


class Image:
    """What a container of the image would run in, without one."""

    def __init__(self, directory: Path, url: str) -> None:
        shutil.copytree(DEPLOY / "app", directory, dirs_exist_ok=True)
        self._directory = directory
        example = (DEPLOY / ".env.example").read_text()
        given = dict(re.findall(r"^([A-Z_]+)=(.*)$", example, re.MULTILINE))
        dockerfile = (DEPLOY / "Dockerfile").read_text()
        own = dict(re.findall(r"(MUTIRAO_\w+|PYTHON\w+)=(\S+)", dockerfile.split("ENV ")[-1]))
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        self._env = {**own, **given, "MUTIRAO_DATABASE": url, "PATH": path}
        self._ports: dict[str, str] = {}
        self._env["MUTIRAO_PROBE_URL"] = PORTS.sub(self._port, OF_A_WORKER)

    def words(self, words: list[str]) -> list[str]:
        """Return a command with free ports, the same for the same."""
        return ["mutirao", *(PORTS.sub(self._port, word) for word in words)]

    def _port(self, found: re.Match[str]) -> str:
        return self._ports.setdefault(found[0], str(free_port()))

    def run(self, *words: str) -> str:
        """Run a command to its end, which must be a good one; return what it said."""
        done = subprocess.run(
            self.words([*words]),
            cwd=self._directory,
            env=self._env,
            capture_output=True,
            text=True,
            timeout=DEADLINE,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def probe(self, *words: str) -> int:
        """Run the health check; return its exit status."""
        command = self.words(["probe", *words])
        return subprocess.run(
            command, cwd=self._directory, env=self._env, capture_output=True
        ).returncode

    @staticmethod
    def line(process: subprocess.Popen[str], text: str) -> str:
        """Return the next line of its log that has a text."""
        assert process.stderr is not None
        return next(line for line in iter(process.stderr.readline, "") if text in line)

    @contextmanager
    def running(self, words: list[str]) -> Iterator[subprocess.Popen[str]]:
        """Run a command until SIGTERM ends it with status 0."""
        with subprocess.Popen(
            self.words(words), cwd=self._directory, env=self._env, stderr=subprocess.PIPE, text=True
        ) as process:
            try:
                yield process
                process.send_signal(signal.SIGTERM)
                process.communicate(timeout=DEADLINE)
                assert process.returncode == 0
            finally:
                process.kill()


@pytest.fixture
def services() -> dict[str, Any]:
    """What compose.yaml runs."""
    found: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    return found


def test_from_the_example_to_a_scraped_worker(
    services: dict[str, Any], postgresql_url: str, tmp_path: Path
) -> None:
    """Migrate, a worker with its health check and metrics, the dashboard and the hub."""
    image = Image(tmp_path, postgresql_url)
    asked = services["web"]["healthcheck"]["test"][2:]
    assert image.probe() == 1  # nothing runs yet
    image.run(*services["migrate"]["command"])
    with image.running(services["worker"]["command"]) as worker:
        image.line(worker, '"event": "worker.started"')
        wait_until(lambda: image.probe() == 0, deadline=DEADLINE)
        image.run("enqueue", "send_receipt", '{"order_id": 7}')
        said = image.line(worker, '"logger": "shop"')
        assert '"message": "a receipt for order 7", "job": 1, "task": "send_receipt"' in said
        port = image.words(["9464"])[1]
        counted = 'mutirao_attempts_total{outcome="succeeded",queue="mail",task="send_receipt"} 1.0'

        def scraped() -> bool:
            with urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
                return counted in answer.read().decode()

        wait_until(scraped, deadline=DEADLINE)
    runs = [image.running(services[name]["command"]) for name in ("web", "hub")]
    with runs[0] as web, runs[1] as hub:
        image.line(hub, "the hub listens at")
        image.line(web, "dashboard at http")
        wait_until(lambda: image.probe(*asked[1:]) == 0, deadline=DEADLINE)
