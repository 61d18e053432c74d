"""The protocols of wake-ups, which reduce latency and are never required."""

from collections.abc import AsyncIterator
from typing import Protocol, runtime_checkable

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
    """A notifier that is a server of its own beside the database, and chooses whom it wakes."""

    @property
    def complete(self) -> bool:
        """True while it wakes for all jobs of the database, whoever commits them.

        Workers poll seldom then. It yields a Wake() when this changes.
        """
        ...

    def attend(self, idle: bool) -> None:
        """Say whether the worker wants wake-ups. Never waits; yields a Wake() if it does."""
        ...


class Announcer(Protocol):
    """Who may be told that jobs were committed: never needed, as workers poll anyway."""

    @property
    def listens(self) -> bool:
        """True if there is anybody to tell."""
        ...

    def announce(self, wake: Wake, jobs: int = 1, task: str | None = None) -> None:
        """Tell that `jobs` jobs were committed, of one task or of several (None).

        Neither waits nor raises: what cannot be told at the moment is dropped.
        """
        ...
