"""What comes round again and again, for loops that do several things."""

from __future__ import annotations

import time


class Timer:
    """Rings `interval` seconds after it was heard last; never, if that is 0."""

    def __init__(self, interval: float) -> None:
        self._interval = interval
        self._next = time.monotonic() + interval

    def rang(self) -> bool:
        """Tell whether it has rung since it was asked last."""
        now = time.monotonic()
        if not self._interval or now < self._next:
            return False
        self._next = now + self._interval
        return True


class Stillness:
    """Rings when a number has stayed the same for `interval` seconds, and again after as many."""

    def __init__(self, interval: float) -> None:
        self._interval = interval
        self._number, self._since = -1, 0.0

    def rang(self, number: int) -> bool:
        """Tell whether it has rung, given the number as it is now."""
        now = time.monotonic()
        if number != self._number:
            self._number, self._since = number, now
        if now - self._since < self._interval:
            return False
        self._since = now
        return True
