"""Where a process is: the stacks of all its threads and tasks, when it is asked by a signal."""

from __future__ import annotations

import asyncio
import faulthandler
import gc
import signal
import sys

ASKED_BY = signal.SIGUSR1


def print_on_signal() -> None:
    """Print all stacks to standard error whenever the signal comes."""
    signal.signal(ASKED_BY, _print_tasks)
    # Beneath Python, so that it prints even where no bytecode runs.
    faulthandler.register(ASKED_BY, all_threads=True, chain=True)


def _print_tasks(number: int, frame: object) -> None:
    for one in gc.get_objects():
        if isinstance(one, asyncio.Task) and not one.done():
            one.print_stack(file=sys.stderr)
