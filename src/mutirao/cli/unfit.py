"""Lets a worker process report to its supervisor that it is unfit: that no restart helps.

Its exit status alone is not enough: a handler may end the process with any status.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import click

from mutirao.errors import MutiraoError

VARIABLE = "MUTIRAO_TELLS_UNFIT"  # the descriptor of a pipe to the supervisor, in its processes
STATUSES = (2, 3)  # misuse, configuration or schema errors


class UnfitNotice:
    """The report of a worker process about its end; does nothing without a supervisor."""

    def __init__(self) -> None:
        pipe = os.environ.pop(VARIABLE, None)
        self._pipe = None if pipe is None else int(pipe)
        if self._pipe is not None:
            os.set_inheritable(self._pipe, False)

    def ends_with(self, status: int) -> None:
        """Notify the supervisor, if no restart helps after this exit status."""
        if self._pipe is not None and status in STATUSES:
            with suppress(BrokenPipeError):  # the supervisor was killed
                os.write(self._pipe, b"!")

    @contextmanager
    def on_errors(self) -> Iterator[None]:
        """Notify it also of errors that are raised inside, whatever the exit status is."""
        try:
            yield
        except (MutiraoError, click.ClickException):
            self.ends_with(STATUSES[0])
            raise


class UnfitLine:
    """The supervisor's end, for one process. `writing` is to be passed to it."""

    def __init__(self) -> None:
        self._reading, self.writing = os.pipe()
        os.set_blocking(self._reading, False)  # what the process has started may live on with it

    def started(self) -> None:
        """Close the writing end, which the process has."""
        os.close(self.writing)

    def unfit(self) -> bool:
        """Return whether the ended process has reported that no restart helps."""
        try:
            return bool(os.read(self._reading, 1))
        except BlockingIOError:
            return False

    def close(self) -> None:
        """Stop listening."""
        os.close(self._reading)
