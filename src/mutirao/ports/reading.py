"""The part of a store that pages read, as a protocol: bounded, whatever the size of the tables.

Each call is a few statements, each of which looks at no more than some ten thousand rows; the
answer says what was not looked at.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Protocol

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


class ReadingApi(Protocol):
    """What pages read; part of `Store`."""

    async def page(self, which: JobFilter, *, before: int | None = None, size: int = 50) -> Page:
        """Return the newest jobs that match and whose ids are smaller than `before`.

        Where many have to be looked at, it stops, and `Page.next` goes on behind them. The limit of
        the filter has no meaning here.
        """
        ...

    async def how_many(self, which: JobFilter, *, most: int = 10_000) -> Counted:
        """Count the jobs that match, up to `most`; or of many the newest, and says so."""
        ...

    async def figures(self) -> list[QueueFigure]:
        """Count the jobs of every queue by state; finished ones from what is added up.

        Live jobs are counted up to a bound, unless a worker counted them lately.
        """
        ...

    async def hours(
        self, since: datetime, *, queue: str | None = None, limit: int = 10_000
    ) -> list[HourFigure]:
        """Return what ended in each hour from `since` on, the newest first."""
        ...

    async def minutes(self, since: datetime) -> list[MinuteFigure]:
        """Return how many attempts ended in each minute from `since` on, by outcome.

        Of each outcome some thousand, the newest; a minute of which not all were read says so.
        """
        ...

    async def waits(self, *, sample: int = 1_000) -> list[WaitFigure]:
        """Return how long the newest jobs that succeeded waited for their only attempt."""
        ...

    async def errors(self, *, task: str | None = None, limit: int = 100) -> list[ErrorFigure]:
        """Return errors, the last one first."""
        ...

    async def running(self, *, worker: int | None = None, limit: int = 500) -> list[RunningJob]:
        """Return jobs that run, those that began first; of one worker, or of all."""
        ...

    async def standing(self, id: int) -> Standing | None:
        """Return how a live job stands, read at one moment; None if it is not live."""
        ...
