"""A run of the tests comes to its end whatever hangs, and says what it was."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.repeats(decided="tests/support/hangs.py")

DEAF = """
import asyncio

class Lazy:
    @property
    def __class__(self):
        raise LookupError("not made yet")

lazy = [Lazy()]

async def keep_waiting():
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            pass

async def test_that_fails_and_leaves_what_does_not_end():
    task = asyncio.create_task(keep_waiting())
    await asyncio.sleep(0)
    assert task.done()

def test_another():
    pass
"""


def test_a_test_that_hangs_in_its_fixtures(tmp_path: Path) -> None:
    """Its process ends, the others go on, and the report has the test, its tasks and threads."""
    (tmp_path / "test_deaf.py").write_text(DEAF)
    (tmp_path / "test_fine.py").write_text("def test_fine():\n    pass\n")
    ran = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-p", "tests.support.hangs", "-p", "xdist", "-q"),
            *("--rootdir", tmp_path, "-c", "/dev/null", "-o", "asyncio_mode=auto"),
            *("-n", "2", "--dist", "loadfile", "--max-worker-restart=0", "-o", "too_long=1"),
            tmp_path,
        ],
        capture_output=True,
        text=True,
        timeout=250,
    )
    assert ran.returncode != 0
    found = ran.stdout + ran.stderr
    assert "test_that_fails_and_leaves_what_does_not_end" in found
    assert "what_does_not_end (call): " in found  # at once
    assert "await asyncio.sleep(60)" in found
    assert "not made yet" not in found  # an object that is no task is asked nothing
    assert "in _cancel_all_tasks" in found
    assert "2 failed, 1 passed" in found  # it failed, and its process crashed
