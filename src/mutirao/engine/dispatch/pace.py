"""The number of jobs to hold ready, from how long handlers have taken.

It is enough for about 100 ms of work, so that short jobs do not wait for the round trip of a claim
and long ones are not held back while another worker is free.
"""

NEWEST_WEIGHT = 0.05  # weight of the newest duration in the running mean
STALL_SECONDS = 0.5  # seconds without a start after which waiting jobs are released
MIN_DURATION = 1e-6  # seconds; the clock may measure 0 for a handler that does nothing


class Pace:
    """The running mean of durations, in seconds. `most` is the maximum that it recommends."""

    def __init__(self, prefetch: float, most: int) -> None:
        self._prefetch, self._most = prefetch, most
        self._mean: float | None = None

    @property
    def known(self) -> bool:
        """Whether any duration is known."""
        return self._mean is not None

    def took(self, duration: float) -> None:
        """Record how long a handler took."""
        mean = duration if self._mean is None else self._mean
        self._mean = mean + (duration - mean) * NEWEST_WEIGHT

    def takes_at_least(self, duration: float) -> None:
        """Record that handlers which have not ended yet have taken this long already."""
        self._mean = max(self._mean or 0.0, duration)

    def ahead(self, slots: int) -> int:
        """Return how many jobs to hold ready for `slots` slots."""
        if self._mean is None:
            return slots
        return min(int(self._prefetch * slots / max(self._mean, MIN_DURATION)), self._most)
