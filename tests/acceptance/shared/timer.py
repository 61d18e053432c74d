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
