"""The waits for a database that cannot be reached: longer each time, and randomised."""

import random

from mutirao.model.jobs.retry import grown

FIRST_WAIT, MAX_WAIT = 0.05, 5.0  # seconds


class Backoff:
    """The waits of one loop, at most `longest` seconds each; `reset` after a success."""

    def __init__(self, longest: float = MAX_WAIT) -> None:
        self._longest = longest
        self._failures = 0

    @property
    def failing(self) -> bool:
        """Whether there was a failure, and no success since."""
        return self._failures > 0

    def reset(self) -> bool:
        """Start again from the shortest wait; return whether there had been failures."""
        had, self._failures = self._failures > 0, 0
        return had

    def next(self) -> float:
        """Return the seconds to wait after another failure."""
        wait = grown(FIRST_WAIT, self._failures, self._longest)
        self._failures += 1
        return wait * random.uniform(0.5, 1.0)
