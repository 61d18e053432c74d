"""The part of a store for actions on many jobs and their audit, as a protocol."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from mutirao.model.audit.actions import ActionState, AuditRecord, Came, NewAction
    from mutirao.model.jobs.job import JobState
    from mutirao.model.jobs.records import JobFilter


class AuditApi(Protocol):
    """What actions on many jobs need, and what is kept of them; part of `Store`."""

    async def matching_ids(
        self, which: JobFilter, *, before: int | None = None, size: int = 1_000
    ) -> tuple[list[int], int | None]:
        """Return the ids of the newest jobs that match, below `before`, and where to go on.

        The second is `before` of the next call; None: there are no more. It may come without ids.
        """
        ...

    async def states(self, which: JobFilter) -> dict[JobState, int]:
        """Count the jobs that match, by their state; all of them, so name some.

        The limit of the filter has no meaning here.
        """
        ...

    async def delete(self, which: JobFilter) -> list[int]:
        """Delete finished jobs with all that is known of them; return their ids.

        Left alone are live jobs, steps of graphs that have not ended, and publications that have
        deliveries, as by `prune`.
        """
        ...

    async def begin_action(self, action: NewAction, *, now: datetime | None = None) -> int:
        """Write down that an action begins; return its id."""
        ...

    async def advance_action(self, id: int, came: Came, *, now: datetime | None = None) -> bool:
        """Write down how far an action came; return False if it is to stop."""
        ...

    async def end_action(
        self,
        id: int,
        state: ActionState,
        error: str | None = None,
        *,
        now: datetime | None = None,
    ) -> None:
        """Write down that an action ended so."""
        ...

    async def stop_action(self, id: int) -> bool:
        """Ask an action that runs, anywhere, to stop after its batch; return whether it runs.

        One of which nothing was seen for a minute is lost, and does not.
        """
        ...

    async def actions(
        self, *, before: int | None = None, limit: int = 100, id: int | None = None
    ) -> list[AuditRecord]:
        """Return actions, newest first; below an id, or one."""
        ...

    async def prune_actions(self, before: float, limit: int, *, now: datetime | None = None) -> int:
        """Forget actions that began more than `before` seconds ago; return how many."""
        ...
