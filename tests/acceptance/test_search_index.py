"""The example of a search index keeps its promise, and would say if it did not."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

DEMO = Path(__file__).parents[2] / "examples" / "search_index" / "demo.py"


def test_every_document_is_indexed() -> None:
    """As it is now, never twice at once, though a worker is killed while it indexes."""
    done = subprocess.run(
        [sys.executable, DEMO], capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "is killed with SIGKILL" in done.stdout
    assert "never twice at once" in done.stdout


@pytest.mark.parametrize(
    ("runs", "early", "told"),
    [
        ([(1, 5, 0.0, 1.0), (1, 9, 1.0, 2.0)], 1, []),
        ([(1, 9, 0.0, 1.0), (1, 9, 0.9, 2.0)], 1, ["1 documents were indexed twice at once"]),
        ([(1, 8, 0.0, 1.0)], 1, ["1 documents are not indexed as they are now, the first is 1"]),
        ([(1, n, n, n + 0.5) for n in range(10)], 1, ["10 runs for 9 edits are no saving"]),
        ([(1, 9, 0.0, 1.0)], 0, ["nothing was indexed before the last edit"]),
    ],
)
def test_a_broken_promise_is_told(
    runs: list[tuple[int, int, float, float]], early: int, told: list[str]
) -> None:
    """The verdict sees stale documents, runs at the same time, and runs that were not saved."""
    demo = _demo()
    found = list(demo.flaws({1: 9}, [demo.Run(*run) for run in runs], early))
    assert [each[: len(told[0])] for each in found] == told


def _demo() -> ModuleType:
    spec = importlib.util.spec_from_file_location("search_index_demo", DEMO)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
