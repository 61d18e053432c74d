"""What other tests decide is left out until it is asked for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

MARKED = """
import pytest

@pytest.mark.repeats("mysql", decided="{decided}")
@pytest.mark.parametrize("database", ["sqlite", "mysql"])
@pytest.mark.parametrize("size", [1, 2])
def test_one(database, size, share):
    assert share(18) == {share}
"""


def ran(directory: Path, *options: str, decided: str = ".", share: int = 3) -> str:
    """Run four marked tests; return what is said."""
    (directory / "test_marked.py").write_text(MARKED.format(decided=decided, share=share))
    plugin = ("-p", "tests.support.repeats", "-p", "no:cacheprovider")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", *plugin, "-q", "-c", "/dev/null"),
            *("--strict-markers", "--rootdir", str(directory), str(directory), *options),
        ],
        capture_output=True,
        text=True,
        timeout=250,
    )
    return done.stdout + done.stderr


def test_repetitions_are_left_out(tmp_path: Path) -> None:
    """The cases that the mark names are, and no others."""
    assert "2 passed, 2 deselected" in ran(tmp_path)


def test_repetitions_are_asked_for(tmp_path: Path) -> None:
    """Then nothing is left out, and all examples are taken."""
    assert "4 passed" in ran(tmp_path, "--repeats", share=18)


def test_where_it_is_decided_is_there(tmp_path: Path) -> None:
    """Or the behaviour would have no test any more."""
    said = ran(tmp_path, decided="gone.py")
    assert "gone.py, which is not there" in said
    assert "passed" not in said
