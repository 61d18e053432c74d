"""An alarm that ends the process in time, whatever its threads and its event loop do."""

import faulthandler
import os
import sys
import threading
from contextlib import suppress
from math import inf
from time import monotonic

from mutirao.log import log

# More seconds, after which the process ends even if no Python code can run any more.
HARD_EXIT_MARGIN = 2.0
STANDARD_ERROR = 2  # leads to /dev/null then


class Alarm:
    """The one alarm of a process; setting it again can only make it earlier."""

    def __init__(self) -> None:
        self._timer: threading.Timer | None = None
        self._at = inf  # monotonic

    def set(self, seconds: float, status: int, why: str) -> None:
        """End the process in `seconds` with this exit status, and log why."""
        if monotonic() + seconds >= self._at:
            return
        self.clear()
        self._at = monotonic() + seconds
        self._timer = threading.Timer(seconds, self.ring, (status, why))
        self._timer.daemon = True
        self._timer.start()
        # The timer cannot run while a thread never releases the GIL. The status is 1 then.
        faulthandler.dump_traceback_later(seconds + HARD_EXIT_MARGIN, exit=True, file=_where())

    def clear(self) -> None:
        """Cancel the alarm, so that the process continues."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer, self._at = None, inf
            faulthandler.cancel_dump_traceback_later()

    def ring(self, status: int, why: str) -> None:
        """End the process now; print the stacks of all its threads."""
        log.critical("%s; ending with status %s", why, status)
        with suppress(Exception):  # standard error may be closed
            faulthandler.dump_traceback(_where(), all_threads=True)
            sys.stderr.flush()
        os._exit(status)


def _where() -> int:
    """Return the descriptor of standard error; Python has none if it was started without."""
    try:
        return sys.stderr.fileno()
    except (AttributeError, ValueError, OSError):
        return STANDARD_ERROR
