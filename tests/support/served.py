"""An application of the examples as a user runs it: commands in its directory, and a web server."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

from tests.support.examples import EXAMPLES
from tests.support.servers import free_port
from tests.support.waiting import wait_until


class Served:
    """An example, and where its web server listens.

    Parameters:
        example: its directory, or the name of one of the examples.
        home: a directory for what the programs write.
        variables: of their environment. The port replaces `PORT` at the end of a value.
    """

    def __init__(self, example: str | Path, home: Path, **variables: str) -> None:
        self.port, self._numbers = free_port(), itertools.count()
        self._here, self._home = EXAMPLES / example, home
        own = {name: value.replace("PORT", str(self.port)) for name, value in variables.items()}
        self._environment = {**os.environ, "HOME": str(home), "PYTHONUNBUFFERED": "1", **own}

    def run(self, *command: str) -> str:
        """Run a module of Python with its arguments, or a file; return what it says."""
        done = subprocess.run(
            self._command(command), cwd=self._here, env=self._environment, timeout=250,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout
        return done.stdout

    @contextmanager
    def running(self, *command: str) -> Iterator[subprocess.Popen[bytes]]:
        """Run such a program beside the block; it has to end well at SIGTERM, unless it was killed.

        Gives the process.
        """
        log = self._home / f"{command[0]}{next(self._numbers)}.log"
        with log.open("w") as out:
            process = subprocess.Popen(
                self._command(command), cwd=self._here, env=self._environment,
                stdout=out, stderr=subprocess.STDOUT,
            )  # fmt: skip
        try:
            yield process
            if process.poll() == -signal.SIGKILL:
                return
            assert process.poll() is None, log.read_text()
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) in (0, -signal.SIGTERM), log.read_text()
            assert "Traceback" not in log.read_text(), log.read_text()
        finally:
            _end(process)

    def ask(self, path: str, body: object = None) -> tuple[int, Any]:
        """Send a request, a POST if it has a body; return the status, and what JSON says."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}", data, {"content-type": "application/json"}
        )
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310
                return answer.status, json.loads(answer.read())
        except HTTPError as error:
            with error:
                body = error.read()
                return error.code, json.loads(body) if body[:1] in b"{[" else body.decode()

    def answers(self, path: str, status: int = 200) -> bool:
        """Return whether the server answers with this status."""
        with suppress(OSError, HTTPException):
            return self.ask(path)[0] == status
        return False

    def until(self, path: str, expected: object) -> None:
        """Wait until a page has this content."""
        wait_until(lambda: self.ask(path) == (200, expected))

    def _command(self, command: tuple[str, ...]) -> list[str]:
        first = command[:1] if command[0].endswith(".py") else ("-m", *command[:1])
        rest = (word.replace("PORT", str(self.port)) for word in command[1:])
        return [sys.executable, *first, *rest]


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a program after a failure; one that keeps others running is asked to end them."""
    if process.poll() is None:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(20)
    process.kill()
    process.wait()
