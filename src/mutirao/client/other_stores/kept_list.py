"""A list of databases that the application gives: while it cannot be had, the last one counts."""

from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Generic, TypeVar

from mutirao.log import log

T = TypeVar("T")


class KeptList(Generic[T]):
    """A list as it was last given. The first of several failures is logged.

    Parameters:
        ask: returns the list.
        fresh_for: seconds for which it is not asked for again.
        clock: seconds that only grow.
    """

    def __init__(
        self,
        ask: Callable[[], Awaitable[T]],
        fresh_for: float = 0.0,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._ask, self._fresh_for, self._clock = ask, fresh_for, clock
        self._kept: tuple[T] | None = None
        self._asked_at = 0.0
        self._failed = False

    async def get(self) -> T:
        """Return the list; while it cannot be had, the one that was given before.

        Raises:
            Exception: what `ask` raised, and there was none before.
        """
        if self._kept is not None and self._clock() - self._asked_at < self._fresh_for:
            return self._kept[0]
        try:
            self._kept, self._failed = (await self._ask(),), False
        except Exception as error:
            if self._kept is None:
                raise
            if not self._failed:
                log.error("the list of databases stays as it is: %s", error, exc_info=error)
            self._failed = True
        self._asked_at = self._clock()
        return self._kept[0]
