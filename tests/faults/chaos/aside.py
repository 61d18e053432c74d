"""Things that are done beside the loop of a run, one at a time."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor


class OneByOne:
    """Does one thing at a time in another thread."""

    def __init__(self) -> None:
        self._now: Future[None] | None = None
        self.begun = False

    @property
    def free(self) -> bool:
        """Whether nothing is being done. Raises what went wrong with the last thing."""
        if self._now is not None and self._now.done():
            self.wait()
        return self._now is None

    def do(self, what: Callable[[], None], helper: ThreadPoolExecutor) -> None:
        """Begin to do something, when it is free."""
        self.begun = True
        self._now = helper.submit(what)

    def wait(self) -> None:
        """Wait until it is done. Raises what went wrong."""
        if self._now is not None:
            done, self._now = self._now, None
            done.result()
