"""Repairs what handlers break in a worker's process; counts starts that the system refuses.

A handler may close the standard streams of its process, or remove its working directory. Both are
repaired before a child is started, and in a child before each handler. Output of handlers is
written line by line. The system may also run out of processes, descriptors or memory. A job whose
handler could not start for that reason is given back without counting an attempt. A worker that
cannot start any handler for a while ends, because it would only claim jobs.
"""

import io
import multiprocessing.process
import os
import sys
from collections.abc import Callable
from threading import Lock
from time import monotonic

from mutirao.errors import HandlersCannotStart
from mutirao.log import log

LIMIT = 10.0  # seconds without a start, after which a worker ends
LEAST = 3  # refusals within that time: a single one long ago means nothing
STANDARD = 2  # the last descriptor of the standard streams


class NotStarted(RuntimeError):
    """No child or no thread could be started for a handler, which was not called."""


class RefusedStarts:
    """Counts the starts of one kind, from any thread. `what`: "child process" or "thread"."""

    def __init__(self, what: str, clock: Callable[[], float] = monotonic) -> None:
        self._what, self._clock = what, clock
        self._lock = Lock()
        self._since: float | None = None  # of the first refusal since a start
        self._times, self._reason = 0, ""

    def given(self) -> None:
        """Note that one was started."""
        self._since = None

    def refused(self, reason: object) -> NotStarted:
        """Note that none could be started; return what to raise."""
        with self._lock:
            if self._since is None:
                self._since, self._times = self._clock(), 0
            self._times, self._reason = self._times + 1, str(reason)
        return NotStarted(f"no {self._what} can be started: {reason}")

    def check(self) -> None:
        """Raise HandlersCannotStart if every start was refused for too long."""
        since = self._since
        if since is None or self._times < LEAST or self._clock() - since < LIMIT:
            return
        raise HandlersCannotStart(
            f"no {self._what} could be started for {LIMIT:g} s, {self._times} times in a row:"
            f" {self._reason}. A handler may have broken this process, or the system may lack"
            " resources: start the worker again"
        )


def mend_standard_streams() -> None:
    """Open /dev/null in place of standard streams that were closed.

    Otherwise the next opened file takes their numbers. A child cannot be started then, or a log is
    written into the connection to a database. Open streams stay as they are.
    """
    mended = []
    while (number := os.open(os.devnull, os.O_RDWR)) <= STANDARD:
        os.set_inheritable(number, True)
        mended.append(number)
    os.close(number)
    if mended:
        names = ", ".join(map(str, mended))
        log.error("descriptors %s were closed, by a handler perhaps; they are /dev/null now", names)


def write_whole_lines() -> None:
    """Write what handlers print as soon as a line is complete, also into a pipe or a file.

    Otherwise Python buffers kilobytes of it; with PYTHONUNBUFFERED it writes a line in pieces, and
    the output of other threads comes in between.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True, write_through=False)


def mend_directory() -> None:
    """Enter the directory in which the worker was started if the working directory was removed.

    Raises:
        OSError: there is no directory of that name, or not again.
    """
    try:
        os.getcwd()
    except FileNotFoundError:
        name = multiprocessing.process.ORIGINAL_DIR  # type: ignore[attr-defined]
        if name is None:
            raise
        os.chdir(name)
        log.warning("the working directory was removed, by a handler perhaps; %s was entered", name)
