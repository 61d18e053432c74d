"""The protocols of wake-ups, which reduce latency and are never required."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from mutirao.model.jobs.job import Wake


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


@runtime_checkable
class ChoosingNotifier(Notifier, Protocol):
    """A notifier that is a server beside the database, and chooses which workers wake."""

    @property
    def complete(self) -> bool:
        """True while it announces all jobs of the database, whichever program commits them.

        Workers poll seldom then. It yields a Wake() when this changes.
        """
        ...

    def attend(self, idle: bool) -> None:
        """Report whether the worker wants wake-ups. Never waits; yields a Wake() if it does."""
        ...


class Announcer(Protocol):
    """Announces that jobs were committed: never needed, as workers poll anyway."""

    @property
    def listens(self) -> bool:
        """True if there is a listener."""
        ...

    def announce(self, wake: Wake, jobs: int = 1, task: str | None = None) -> None:
        """Announce that `jobs` jobs were committed, of one task or of several (None).

        Neither waits nor raises: an announcement that cannot be sent at the moment is dropped.
        """
        ...
