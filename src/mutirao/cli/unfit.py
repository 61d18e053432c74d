"""Lets a worker process report to its supervisor that it is unfit: that no restart helps.

Its exit status alone does not say so: a handler may end the process with any.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import click

from mutirao.errors import MutiraoError

VARIABLE = "MUTIRAO_TELLS_UNFIT"  # the descriptor of a pipe to the supervisor, in its processes
STATUSES = (2, 3)  # misuse, configuration or schema errors


class UnfitNotice:
    """What a worker process reports of its end; nothing where no supervisor has started it."""

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
        """Notify it as well of what is raised inside, whatever status that is refused with."""
        try:
            yield
        except (MutiraoError, click.ClickException):
            self.ends_with(STATUSES[0])
            raise


class UnfitLine:
    """The other end, of one process. `writing` is to be passed to it."""

    def __init__(self) -> None:
        self._reading, self.writing = os.pipe()
        os.set_blocking(self._reading, False)  # what the process has started may live on with it

    def started(self) -> None:
        """Leave the writing to the process."""
        os.close(self.writing)

    def unfit(self) -> bool:
        """Return whether the process, which has ended, has said that no restart helps."""
        try:
            return bool(os.read(self._reading, 1))
        except BlockingIOError:
            return False

    def close(self) -> None:
        """Hear no more."""
        os.close(self._reading)
