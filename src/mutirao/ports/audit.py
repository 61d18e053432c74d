"""The part of a store for actions on many jobs and their audit, as a protocol."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from mutirao.model.audit.actions import ActionState, AuditRecord, Came, NewAction
    from mutirao.model.jobs.job import JobState
    from mutirao.model.jobs.records import JobFilter


class AuditApi(Protocol):
    """`store.audit`: actions on many jobs, and their audit."""

    async def matching_ids(
        self, which: JobFilter, *, before: int | None = None, size: int = 1_000
    ) -> tuple[list[int], int | None]:
        """Return the ids of the newest jobs that match, below `before`, and where to continue.

        The second value is `before` of the next call; None: there are no more. It may come without
        ids.
        """
        ...

    async def states(self, which: JobFilter) -> dict[JobState, int]:
        """Count the jobs that match, by their state; all of them, so give a narrow filter.

        The limit of the filter has no meaning here.
        """
        ...

    async def delete(self, which: JobFilter) -> list[int]:
        """Delete finished jobs with all their data; return their ids.

        As by `Store.prune`, these are left alone: live jobs, steps of graphs that have not ended,
        and publications that have deliveries.
        """
        ...

    async def begin(self, action: NewAction, *, now: datetime | None = None) -> int:
        """Record that an action begins; return its id."""
        ...

    async def advance(self, id: int, came: Came, *, now: datetime | None = None) -> bool:
        """Record the progress of an action; return False if it is to stop."""
        ...

    async def end(
        self,
        id: int,
        state: ActionState,
        error: str | None = None,
        *,
        now: datetime | None = None,
    ) -> None:
        """Record that an action ended with this state."""
        ...

    async def stop(self, id: int) -> bool:
        """Request that an action stops after its batch, wherever it runs; return whether it runs.

        An action without progress for a minute is lost, and does not run.
        """
        ...

    async def actions(
        self, *, before: int | None = None, limit: int = 100, id: int | None = None
    ) -> list[AuditRecord]:
        """Return actions, newest first: those below an id, or a single one."""
        ...

    async def prune(self, before: float, limit: int, *, now: datetime | None = None) -> int:
        """Forget actions that began more than `before` seconds ago; return how many."""
        ...
