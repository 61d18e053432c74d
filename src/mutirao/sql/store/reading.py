"""The part of the SQL store that pages read: `mutirao.ports.reading`."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from mutirao.sql.connections.runner import for_people
from mutirao.sql.statements import finding
from mutirao.sql.store.looks import Looking

if TYPE_CHECKING:
    from mutirao.model.jobs.records import JobFilter
    from mutirao.model.reading.figures import (
        Counted,
        ErrorFigure,
        HourFigure,
        MinuteFigure,
        Page,
        QueueFigure,
        RunningJob,
        WaitFigure,
    )
    from mutirao.model.reading.standing import Standing


class SqlReading(Looking):
    """The part of `SqlStore` that implements `mutirao.ports.reading`."""

    async def page(self, which: JobFilter, *, before: int | None = None, size: int = 50) -> Page:
        """Return the next jobs that match."""
        return await self._look(for_people(finding.paging.page), which, before, size)

    async def how_many(self, which: JobFilter, *, most: int = 10_000) -> Counted:
        """Count the jobs that match, up to a bound."""
        return await self._look(finding.paging.how_many, which, most)

    async def figures(self) -> list[QueueFigure]:
        """Count jobs by queue and state."""
        return await self._look(for_people(finding.figures.figures), self._dialect)

    async def hours(
        self, since: datetime, *, queue: str | None = None, limit: int = 10_000
    ) -> list[HourFigure]:
        """Return what ended in each hour."""
        return await self._runner.read(for_people(finding.figures.hours), since, queue, limit)

    async def minutes(self, since: datetime) -> list[MinuteFigure]:
        """Return what ended in each minute."""
        return await self._runner.read(finding.figures.minutes, since)

    async def waits(self, *, sample: int = 1_000) -> list[WaitFigure]:
        """Return how long the newest jobs waited."""
        return await self._runner.read(for_people(finding.figures.waits), sample)

    async def errors(self, *, task: str | None = None, limit: int = 100) -> list[ErrorFigure]:
        """Return errors."""
        return await self._runner.read(for_people(finding.figures.errors), task, limit)

    async def running(self, *, worker: int | None = None, limit: int = 500) -> list[RunningJob]:
        """Return jobs that run."""
        return await self._look(for_people(finding.figures.running), self._dialect, worker, limit)

    async def standing(self, id: int) -> Standing | None:
        """Return how a live job stands."""
        return await self._runner.read(for_people(finding.standing.standing), self._dialect, id)
