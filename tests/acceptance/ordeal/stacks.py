"""Where a process is: the stacks of all its threads and tasks, when it is asked by a signal."""

from __future__ import annotations

import asyncio
import faulthandler
import gc
import signal
import sys

ASKED_BY = signal.SIGUSR1


def tell_when_asked() -> None:
    """Print all stacks to standard error whenever the signal comes."""
    signal.signal(ASKED_BY, _tell_tasks)
    # Beneath Python, so that it tells even where no bytecode runs.
    faulthandler.register(ASKED_BY, all_threads=True, chain=True)


def _tell_tasks(number: int, frame: object) -> None:
    for one in gc.get_objects():
        if isinstance(one, asyncio.Task) and not one.done():
            one.print_stack(file=sys.stderr)
