"""A worker whose handlers spoil what later children need: `spoiling URL LOG`."""

from __future__ import annotations

import logging
import multiprocessing
import os
import shutil
import sys
from pathlib import Path

from mutirao import Mutirao
from mutirao.engine.calls import handler_damage

app = Mutirao(sys.argv[1] if len(sys.argv) > 1 else "sqlite:///never-opened.db")


@app.task
def close_descriptors() -> None:
    """Close standard input, output and error."""
    os.closerange(0, 3)


@app.task
def remove_directory(again: bool) -> None:
    """Remove the working directory; `again`: and make it anew, as a deployment may."""
    directory = Path.cwd()
    shutil.rmtree(directory)
    if again:
        directory.mkdir()


@app.task
def lose_python() -> None:
    """Let the program that children are vanish."""
    multiprocessing.set_executable("/nowhere/python")


@app.task(process=True, keep_result=True)
def apart() -> list[bool]:
    """Return whether each of the standard streams of this child is open."""
    return [os.path.exists(f"/proc/self/fd/{number}") for number in range(3)]


def main() -> int:
    """Run the worker until a signal, or its end."""
    handler_damage.LIMIT = 0.5
    logging.basicConfig(level=logging.INFO, filename=sys.argv[2])
    return app.run_worker(concurrency=2, poll=0.1)


if __name__ == "__main__":
    # Children find the tasks in the module, not in the program.
    from tests.integration.worker.programs import spoiling

    sys.exit(spoiling.main())
