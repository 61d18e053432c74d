"""Runs a function in a forked child, which ends as programs do. The forking programs share it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable


def run_in_child(body: Callable[[], None], *, ends_at_once: bool = False) -> None:
    """Fork, run `body` in the child, and wait for its end; raise AssertionError if it failed.

    `ends_at_once`: the child ends as those of `multiprocessing` do, without the interpreter's end.
    """
    pid = os.fork()
    if pid == 0:
        body()
        if ends_at_once:
            os._exit(0)
        sys.exit(0)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0, status
