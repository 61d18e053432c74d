"""Programs that fork as soon as their worker has started: `forks_at_once URL NUMBER`.

Each is a child of this one, so that each imports anew what is imported when it is needed; a lock
of an import that another thread holds would be held for ever in its own child.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from functools import partial

from mutirao import Mutirao
from tests.integration.service.programs.child_process import run_in_child

LIMIT = 60  # seconds, after which a child that hangs is ended by its alarm


app = Mutirao(sys.argv[1])


@app.task(queue="nobody")
def step() -> None:
    """Wait, as no worker serves this queue."""


def child() -> None:
    """Enqueue, as a child of a program with a worker may."""
    step.enqueue()


def parent() -> None:
    """Start a worker, fork, and end when the child has."""
    with app.worker(queues=["mail"], poll=60):
        in_child(child)
    app.close()


def in_child(run: Callable[[], None]) -> None:
    """Let a child run something, and fail unless it does within the limit."""
    run_in_child(partial(within_limit, run))


def within_limit(run: Callable[[], None]) -> None:
    """Run something, or end by a signal."""
    signal.alarm(LIMIT)
    run()


for _ in range(int(sys.argv[2])):
    in_child(parent)
print("all is well")
