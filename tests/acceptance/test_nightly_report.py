"""The example of a nightly report keeps its promise, and would say if it did not."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path
from types import ModuleType

import pytest

DEMO = Path(__file__).parents[2] / "examples" / "nightly_report" / "demo.py"


def test_every_night_has_its_report() -> None:
    """Though the worker at the clock is killed, and all of them for some nights."""
    done = subprocess.run(
        [sys.executable, DEMO], capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "is killed with SIGKILL" in done.stdout
    assert "All workers are killed" in done.stdout
    assert "nights has exactly one report" in done.stdout


@pytest.mark.parametrize(
    ("nights", "told"),
    [
        ([0, 1, 2], []),
        ([0, 1, 1, 2], ["1 nights with more than one report, the first is 2026-11-21 00:00:01"]),
        ([0, 1, 4], ["2 nights without a report"]),
        ([], ["1 nights without a report"]),
    ],
)
def test_a_broken_promise_is_told(nights: list[int], told: list[str]) -> None:
    """The verdict sees a second report and a missing one."""
    first = datetime(2026, 11, 21)  # noqa: DTZ001
    assert list(_demo().flaws([first + timedelta(seconds=n) for n in nights])) == told


def _demo() -> ModuleType:
    spec = importlib.util.spec_from_file_location("nightly_report_demo", DEMO)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
