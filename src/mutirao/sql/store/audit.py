"""The part of the SQL store for actions on many jobs and their audit: `mutirao.ports.audit`."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from mutirao.sql.connections.runner import for_people
from mutirao.sql.statements import finding
from mutirao.sql.store.looks import Looking

if TYPE_CHECKING:
    from mutirao.model.audit.actions import ActionState, AuditRecord, Came, NewAction
    from mutirao.model.jobs.job import JobState
    from mutirao.model.jobs.records import JobFilter
    from mutirao.sql.connections.runner import Runner


class SqlAudit(Looking):
    """The part of `SqlStore` that implements `mutirao.ports.audit`."""

    _insistent: Runner
    _patient: Runner

    async def matching_ids(
        self, which: JobFilter, *, before: int | None = None, size: int = 1_000
    ) -> tuple[list[int], int | None]:
        """Return the ids of the newest jobs that match, and where to go on."""
        return await self._look(finding.paging.ids, which, before, size)

    async def states(self, which: JobFilter) -> dict[JobState, int]:
        """Count the jobs that match, by their state."""
        return await self._runner.read(for_people(finding.audit.states), which)

    async def delete(self, which: JobFilter) -> list[int]:
        """Delete finished jobs."""
        return await self._insistent.run(finding.audit.remove, which)

    async def begin_action(self, action: NewAction, *, now: datetime | None = None) -> int:
        """Write down that an action begins."""
        return await self._runner.run(finding.audit.begin, self._dialect, action, now)

    async def advance_action(self, id: int, came: Came, *, now: datetime | None = None) -> bool:
        """Write down how far an action came."""
        return await self._insistent.run(finding.audit.advance, self._dialect, id, came, now)

    async def end_action(
        self,
        id: int,
        state: ActionState,
        error: str | None = None,
        *,
        now: datetime | None = None,
    ) -> None:
        """Write down that an action ended."""
        await self._insistent.run(finding.audit.end, self._dialect, id, state, error, now)

    async def stop_action(self, id: int) -> bool:
        """Request that an action stops."""
        return await self._insistent.run(finding.audit.stop, id)

    async def actions(
        self, *, before: int | None = None, limit: int = 100, id: int | None = None
    ) -> list[AuditRecord]:
        """Return actions, newest first."""
        return await self._runner.read(for_people(finding.audit.listed), before, limit, id)

    async def prune_actions(self, before: float, limit: int, *, now: datetime | None = None) -> int:
        """Forget old actions."""
        return await self._patient.run(
            finding.audit.prune, self._dialect.moment(now, -before), limit
        )
