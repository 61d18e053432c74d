"""Mutirão as it was, to make databases of its time and to work beside the new one.

`packages.tar.xz` has, without what these tests do not run, the package of the commits 1c28f00
(`noon`) and e1bbe5c (`evening`) of 25 November 2026, when the files of revision 0100 were still
edited, and of 148c92a (`last`), the last one before revision 0101. A clone without history has
them, too. They run with the dependencies of today: once these have left them behind, they can go,
with the tests that use them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

STATES = ("noon", "evening", "last")
_ARCHIVE = Path(__file__).with_name("packages.tar.xz")


def unpack(directory: Path) -> Path:
    """Unpack all states into a directory; return it."""
    with tarfile.open(_ARCHIVE) as archive:
        archive.extractall(directory, filter="data")
    return directory


def migrate(packages: Path, state: str, url: str) -> None:
    """Have the package of a state migrate a database."""
    program = "import sys; from mutirao.sql import migrations; migrations.upgrade(sys.argv[1])"
    subprocess.run(
        [sys.executable, "-c", program, url], check=True, env=_env(packages, state), timeout=120
    )


class OldWorker:
    """A program with a worker of an old state, which enqueues and does what it is told to."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def ask(self, **what: object) -> object:
        """Let it do one thing, and return its answer; see `worker.py`."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(what), file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        if not answer:
            raise AssertionError(f"the old worker ended with {self._process.wait(30)}")
        return json.loads(answer)


@contextmanager
def old_worker(packages: Path, state: str, url: str) -> Iterator[OldWorker]:
    """Run a worker of an old state until the block ends."""
    program = Path(__file__).with_name("worker.py")
    with subprocess.Popen(
        [sys.executable, str(program), url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=_env(packages, state),
        text=True,
    ) as process:
        try:
            yield OldWorker(process)
            assert process.stdin is not None
            process.stdin.close()
            assert process.wait(60) == 0
        finally:
            process.kill()


def _env(packages: Path, state: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(packages / state), "PYTHONDONTWRITEBYTECODE": "1"}
