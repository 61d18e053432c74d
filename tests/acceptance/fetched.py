"""Projects of others, fetched from PyPI into an environment of their own; none is committed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from tests.matrix.interpreters import CLONE, HERE
from tests.support.waiting import wait_until


def environment(name: str, *packages: str) -> Path:
    """Return the environment `.matrix/NAME` with packages and ours; made unless it is there."""
    place = HERE / name
    if not (place / ".made").exists():
        shutil.rmtree(place, ignore_errors=True)
        run(CLONE, sys.executable, "-m", "venv", place)
        run(CLONE, place / "bin" / "pip", "install", "-q", *packages, "-e", ".[django]")
        (place / ".made").touch()
    return place


def run(place: Path, *command: str | Path) -> str:
    """Run a command in a directory; return what it said. Raises CalledProcessError."""
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=place).stdout


@contextmanager
def working(place: Path, python: Path) -> Iterator[Callable[[Callable[[], bool]], bool]]:
    """Have a worker of a Django project run; what is yielded waits until something is so."""
    command = [str(python), "manage.py", "mutirao", "worker", "--log-level", "error"]
    with subprocess.Popen(command, cwd=place) as process:
        try:
            yield partial(wait_until, deadline=240)
        finally:
            process.terminate()
