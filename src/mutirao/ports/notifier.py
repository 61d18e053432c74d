"""The protocol of wake-ups, which reduce latency and are never required."""

from collections.abc import AsyncIterator
from typing import Protocol

from mutirao.model.job import Wake


class Notifier(Protocol):
    """A wake-up: it may save latency, but never decides whether a job runs. Workers poll anyway."""

    def listen(self) -> AsyncIterator[Wake]:
        """Yield a wake for every notification until the iterator is closed.

        Opens its own connection. As soon as it listens, it yields one Wake() without a lane,
        because jobs may have arrived before.

        Raises:
            StoreUnavailable: the connection broke; the caller should listen again.
        """
        ...
