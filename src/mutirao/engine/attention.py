"""Whether a worker is too busy to want notifications.

NOTIFY makes the commits of a whole database queue up (16 clients: 19.8k commits/s without it,
5.4k with it), so it is worth its price only for a worker that would otherwise sleep.
"""

WINDOW = 0.25  # seconds
MANY = 500  # jobs in a window; 2,000 a second are found soon enough by looking again
GLANCE = 0.005  # seconds between looks while busy
GLANCES = 20  # looks in vain before the worker listens again


class Attention:
    """Counts jobs and rests. `now` is monotonic, in seconds."""

    def __init__(self, now: float) -> None:
        self._rested_at = now
        self._window_at = now
        self._jobs = 0
        self._vain = 0
        self._many = False

    def took(self, jobs: int, now: float) -> None:
        """Note that a claim found jobs."""
        if now - self._window_at > WINDOW:
            self._many, self._window_at, self._jobs = self._jobs >= MANY, now, 0
        self._jobs += jobs
        self._vain = 0

    def rested(self, now: float) -> None:
        """Note that the worker slept."""
        self._rested_at = now

    def busy(self, now: float) -> bool:
        """Whether there was no rest for a while, or many jobs came."""
        return self._many or self._jobs >= MANY or now - self._rested_at > WINDOW

    def looked_in_vain(self) -> bool:
        """Note an empty claim; return whether it is time to listen instead."""
        self._vain += 1
        if self._vain < GLANCES:
            return False
        self._vain, self._jobs, self._many = 0, 0, False
        return True
