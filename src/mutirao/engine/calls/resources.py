"""Notices when the system refuses the threads and processes that handlers start in.

A handler may close the standard streams of its worker, or remove the directory that it works in. So
both are mended before a child is started. What a handler prints leaves line by line. A system may
also be out of processes, descriptors or memory. A job whose handler could not begin for that is
given back uncounted; a worker that can start none for a while would only claim, and ends.
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
LEAST = 3  # so many refusals within them: one long ago says nothing
STANDARD = 2  # the last descriptor of the standard streams


class NotStarted(RuntimeError):
    """No child or no thread could be started for a handler, which was not called."""


class Starts:
    """The starts of one kind, from any thread. `what`: "child process" or "thread"."""

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
        """Raise HandlersCannotStart if all were refused for too long."""
        since = self._since
        if since is None or self._times < LEAST or self._clock() - since < LIMIT:
            return
        raise HandlersCannotStart(
            f"no {self._what} could be started for {LIMIT:g} s, {self._times} times in a row:"
            f" {self._reason}. What a handler has spoiled, or the system lacks, another process"
            " may have: start the worker again"
        )


def mend_standard_streams() -> None:
    """Open /dev/null in place of standard streams that were closed.

    Otherwise whatever is opened next takes their numbers: a child is not started then, and a log is
    written into the connection to a database. None that is open is touched.
    """
    mended = []
    while (number := os.open(os.devnull, os.O_RDWR)) <= STANDARD:
        os.set_inheritable(number, True)
        mended.append(number)
    os.close(number)
    if mended:
        names = ", ".join(map(str, mended))
        log.error("descriptors %s were closed, by a handler perhaps; they lead nowhere now", names)


def write_whole_lines() -> None:
    """Write what handlers print when a line of it is complete, into a pipe or a file, too.

    Otherwise Python keeps kilobytes of it back there; and with PYTHONUNBUFFERED it writes a line in
    pieces, between which other threads write theirs.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True, write_through=False)


def mend_directory() -> None:
    """Enter the working directory anew if it was removed, and made again under its name.

    Raises:
        OSError: there is none of that name.
    """
    try:
        os.getcwd()
    except FileNotFoundError:
        name = multiprocessing.process.ORIGINAL_DIR  # type: ignore[attr-defined]
        if name is None:
            raise
        os.chdir(name)
        log.warning("the working directory %s was removed, and is there again: entered it", name)
