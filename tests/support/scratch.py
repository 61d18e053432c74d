"""A pytest plugin: keeps temporary files in memory, where the system has room for them.

Tests need a disk only to keep the files of a killed process, and memory does that. CREATE DATABASE
took 3.0 s on a busy disk and 0.2 s in memory, and each commit of SQLite waits for its disk. Whoever
sets TMPDIR decides. What takes gigabytes, as environments do, goes to a disk.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

IN_MEMORY = Path("/dev/shm")  # noqa: S108  Linux has it; what is made there has a random name
ENOUGH = 8 << 30  # bytes: four processes of tests were seen to need 3 GB of them
ON_DISK = Path("/var/tmp")  # noqa: S108  for what is large, by the hierarchy standard of file systems


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Choose, before anybody has asked where temporary files go; child processes inherit it."""
    if "TMPDIR" not in os.environ and has_room(IN_MEMORY):
        os.environ["TMPDIR"] = str(IN_MEMORY)
        tempfile.tempdir = None


def has_room(directory: Path) -> bool:
    """Return whether files may be made in a directory, and enough of them."""
    return os.access(directory, os.W_OK) and shutil.disk_usage(directory).free >= ENOUGH


@contextmanager
def on_disk(prefix: str) -> Iterator[Path]:
    """Give a directory for large files, whose name begins so; it is removed at the end.

    In memory, 9 GB of clones with their environments left too little for the rest.
    """
    with tempfile.TemporaryDirectory(
        prefix=prefix, dir=ON_DISK if os.access(ON_DISK, os.W_OK) else None
    ) as name:
        yield Path(name)
