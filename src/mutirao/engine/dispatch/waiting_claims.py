"""Keeps claimed jobs until a slot is free.

Both the event loop and threads take them. A thread whose call has ended begins the next job itself,
in place of the ended one, and the event loop gets several such starts in one call.
"""

import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable

from mutirao.model.jobs.job import Claim

Key = tuple[int, int]  # (id, run)


class WaitingClaims:
    """Claims in the order of their arrival. All methods may be called from any thread."""

    def __init__(self) -> None:
        self._claims: deque[Claim] = deque()
        self._taken: dict[Key, Claim] = {}  # taken by threads, not yet known to the event loop
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """Return the number of waiting claims."""
        return len(self._claims)

    def extend(self, claims: Iterable[Claim]) -> None:
        """Add claims behind the others."""
        with self._lock:
            self._claims.extend(claims)

    def next(self) -> Claim | None:
        """Take the next claim."""
        with self._lock:
            return self._claims.popleft() if self._claims else None

    def take_if(self, fits: Callable[[Claim], bool]) -> Claim | None:
        """Take the next claim for a thread, if it fits; it counts as known until `note`."""
        with self._lock:
            if not self._claims or not fits(self._claims[0]):
                return None
            claim = self._claims.popleft()
            self._taken[claim.id, claim.run] = claim
            return claim

    def note(self, claim: Claim) -> None:
        """Record that the event loop knows of a claim that a thread has taken."""
        self._taken.pop((claim.id, claim.run), None)

    def known(self) -> list[Claim]:
        """Return the waiting claims, and those that threads have taken."""
        with self._lock:
            return [*self._claims, *self._taken.values()]

    def drop(self) -> list[Key]:
        """Forget the waiting claims, and return them."""
        with self._lock:
            dropped = [(claim.id, claim.run) for claim in self._claims]
            self._claims.clear()
            return dropped

    def lose(self, jobs: Collection[Key]) -> None:
        """Forget those of these jobs that wait."""
        with self._lock:
            kept = [each for each in self._claims if (each.id, each.run) not in jobs]
            self._claims = deque(kept)
