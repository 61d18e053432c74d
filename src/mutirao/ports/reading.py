"""The part of a store that pages read, as a protocol: bounded, whatever the size of the tables.

Each call is a few statements, each of which reads no more than some ten thousand rows; the answer
says what was not read.
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
    """`store.reading`: what pages show."""

    async def page(self, which: JobFilter, *, before: int | None = None, size: int = 50) -> Page:
        """Return the newest jobs that match and whose ids are smaller than `before`.

        If very many have to be read, it stops, and `Page.next` continues behind them. The limit of
        the filter has no meaning here.
        """
        ...

    async def how_many(self, which: JobFilter, *, most: int = 10_000) -> Counted:
        """Count the jobs that match, up to `most`; of very many only the newest: a lower bound."""
        ...

    async def figures(self) -> list[QueueFigure]:
        """Count the jobs of every queue by state; finished ones from the hourly sums.

        Live jobs are counted up to a bound, unless a worker counted them lately.
        """
        ...

    async def hours(
        self, since: datetime, *, queue: str | None = None, limit: int = 10_000
    ) -> list[HourFigure]:
        """Return the attempts that ended in each hour from `since` on, the newest first."""
        ...

    async def minutes(self, since: datetime) -> list[MinuteFigure]:
        """Return how many attempts ended in each minute from `since` on, by outcome.

        Of each outcome only some thousand are read, the newest; incomplete minutes are marked.
        """
        ...

    async def waits(self, *, sample: int = 1_000) -> list[WaitFigure]:
        """Return how long the newest jobs that succeeded waited for their only attempt."""
        ...

    async def errors(self, *, task: str | None = None, limit: int = 100) -> list[ErrorFigure]:
        """Return errors, the last one first."""
        ...

    async def running(self, *, worker: int | None = None, limit: int = 500) -> list[RunningJob]:
        """Return running jobs, the earliest first; of one worker, or of all."""
        ...

    async def standing(self, id: int) -> Standing | None:
        """Return the facts about a live job, read at one moment; None if it is not live."""
        ...
