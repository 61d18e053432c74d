"""What becomes of attempts that have ended, as the dispatcher sees it: a `Completer`, or others."""

from collections.abc import Iterable
from typing import Protocol

from mutirao.engine.settling.one_by_one import Finished
from mutirao.model.jobs.job import Wake


class Settler(Protocol):
    """Takes attempts that have ended, and settles them in the background."""

    @property
    def unsettled(self) -> int:
        """The number of attempts that have ended and are not settled yet."""
        ...

    def pending(self) -> set[tuple[int, int]]:
        """Return (id, run) of those."""
        ...

    def add(self, finished: Finished) -> None:
        """Take an attempt that has ended."""
        ...

    def tell_woken(self, woken: Iterable[Wake]) -> None:
        """Report that other jobs may be due in these lanes."""
        ...
