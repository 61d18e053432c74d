"""Guards calls of a monitoring library: their errors end nothing and are logged, now and then."""

from collections.abc import Callable
from time import monotonic
from typing import ParamSpec, TypeVar

from mutirao.log import log

SILENCE = 60.0  # seconds between two lines of the log about failures

P = ParamSpec("P")
T = TypeVar("T")


class GuardedCalls:
    """The calls of one library.

    Parameters:
        of: the name of the library in the log.
        clock: the monotonic time, in seconds.
    """

    def __init__(self, of: str, clock: Callable[[], float] = monotonic) -> None:
        self._of, self._clock = of, clock
        self._failures, self._next = 0, float("-inf")

    def __call__(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T | None:
        """Call a function, and return its result; None if it raises."""
        try:
            return function(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 (jobs must not suffer from what watches them)
            self._log(error)
            return None

    def _log(self, error: Exception) -> None:
        self._failures += 1
        if self._clock() < self._next:
            return
        count, self._failures = self._failures, 0
        self._next = self._clock() + SILENCE
        log.error(
            "%s failed, %s times since it was last said; jobs go on without it",
            *(self._of, count),
            exc_info=error,
        )
