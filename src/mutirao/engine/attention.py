"""The decision whether a worker is too busy to need notifications.

NOTIFY makes the commits of a whole database queue up (16 clients: 19.8k commits/s without it, 5.4k
with it), so it is worth its cost only for a worker that would otherwise sleep.
"""

WINDOW_SECONDS = 0.25
# Jobs in a window; at 2,000 a second, claiming again finds new jobs soon enough.
BUSY_JOBS_PER_WINDOW = 500
BUSY_POLL_INTERVAL = 0.005  # seconds between claims while busy
MAX_EMPTY_CLAIMS = 20  # empty claims before the worker listens again


class Attention:
    """A counter of jobs and rests. `now` is monotonic, in seconds."""

    def __init__(self, now: float) -> None:
        self._rested_at = now
        self._window_at = now
        self._jobs = 0
        self._vain = 0
        self._many = False

    def took(self, jobs: int, now: float) -> None:
        """Record that a claim found jobs."""
        if now - self._window_at > WINDOW_SECONDS:
            self._many, self._window_at, self._jobs = self._jobs >= BUSY_JOBS_PER_WINDOW, now, 0
        self._jobs += jobs
        self._vain = 0

    def rested(self, now: float) -> None:
        """Record that the worker slept."""
        self._rested_at = now

    def busy(self, now: float) -> bool:
        """Return whether the worker has not rested for a while, or many jobs came."""
        return (
            self._many
            or self._jobs >= BUSY_JOBS_PER_WINDOW
            or now - self._rested_at > WINDOW_SECONDS
        )

    def record_empty_claim(self) -> bool:
        """Record an empty claim; return whether the worker should listen instead."""
        self._vain += 1
        if self._vain < MAX_EMPTY_CLAIMS:
            return False
        self._vain, self._jobs, self._many = 0, 0, False
        return True
