"""Schedules in the tables: `mutirao.ports.schedules`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from mutirao.sql.schema import tables
from mutirao.sql.statements import schedule_changes, schedules, ticking
from mutirao.sql.store.part_calls import DeclaredPart, read

if TYPE_CHECKING:
    from mutirao.model.schedules.schedule import Agenda, Amend, Amended, TickResult


class SqlSchedules(DeclaredPart):
    """`store.schedules`."""

    declared = tables.schedule
    listed = read(schedules.listed)

    async def agenda(self, *, without: Collection[str] = (), now: datetime | None = None) -> Agenda:
        """Return the schedules that are due."""
        sender = self._sender
        return await sender.runner.alone(schedules.agenda, sender.dialect, without, now)

    async def amend(self, name: str, amend: Amend, *, now: datetime | None = None) -> Amended:
        """Change a schedule and make its jobs."""
        [amended] = await self.amend_all({name: amend}, now=now)
        return amended

    async def amend_all(
        self, amends: Mapping[str, Amend], *, now: datetime | None = None
    ) -> list[Amended]:
        """Change schedules and make their jobs."""
        sender = self._sender
        changes = schedule_changes.Amending(sender.dialect, sender.enqueue, amends, now)
        return await sender.insistent.run(changes.write)

    async def tick(
        self, limit: int, *, without: Collection[str] = (), now: datetime | None = None
    ) -> list[TickResult]:
        """Make the jobs of due schedules."""
        sender = self._sender
        batch = ticking.Batch(sender.dialect, sender.enqueue, limit, without, now)
        return await sender.insistent.run(batch.write)
