"""The demonstrations of the examples, as programs and as modules."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

EXAMPLES = Path(__file__).parents[2] / "examples"


def run_demo(example: str, url: str, timeout: float) -> str:
    """Run an example's demonstration; return what it printed, after its exit status was 0.

    Parameters:
        example: its directory.
        url: of an empty database. That of a server is given to the program, which works in a schema
            of its own there; without one it works in a file of its own.
        timeout: in seconds.
    """
    arguments = [] if url.startswith("sqlite") else [url]
    done = subprocess.run(
        [sys.executable, EXAMPLES / example / "demo.py", *arguments],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def demo_module(example: str) -> ModuleType:
    """Load an example's demonstration without running it."""
    path = EXAMPLES / example / "demo.py"
    spec = importlib.util.spec_from_file_location(f"{example}_demo", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
