"""Worker processes, started as a process manager starts them: by the command, with a log each."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
UNREACHABLE = 4  # how a worker ends that finds no database when it starts
STOPPED = (0, -signal.SIGTERM)  # how one ends that is told to, ready or not


def start_worker(
    target: str, log: Path, environment: Mapping[str, str], **settings: object
) -> subprocess.Popen[bytes]:
    """Start `mutirao worker` and return its process.

    Parameters:
        target: the application, as `module:attribute`.
        log: a file that gets what it says, warnings and worse, as JSON.
        environment: variables, besides those of this process.
        settings: further options of the command by name, such as `grace=30.0`.
    """
    options = {"log_format": "json", "log_level": "warning"} | settings
    given = [(f"--{name.replace('_', '-')}", str(value)) for name, value in options.items()]
    with log.open("ab") as said:
        return subprocess.Popen(
            [sys.executable, "-m", "mutirao", "worker", target, *(w for o in given for w in o)],
            cwd=ROOT,
            env=os.environ | environment,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            # Ctrl-C at the terminal is for us: we stop them.
            start_new_session=True,
        )


def record_of(line: str) -> dict[str, Any] | None:
    """Return the record that a line of a log is; None: the interpreter's own words, or cut off."""
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) else None
