"""The example of federation keeps its promise."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

DEMO = Path(__file__).parents[2] / "examples" / "federation" / "demo.py"


@pytest.mark.repeats(decided="tests/integration/federation")
def test_a_server_that_was_down_has_the_last_state() -> None:
    """Of everything, in order, with few requests."""
    done = subprocess.run(
        [sys.executable, str(DEMO)], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "It has the last state of everything, in order." in done.stdout
