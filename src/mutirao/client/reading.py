"""Reads for pages: `app.reading`. Lists by a filter, figures, and why a job does not run.

Each operation has an asynchronous face, which does the work, and a synchronous one that calls it.
All of it is bounded, however many jobs there are.
"""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Protocol

from mutirao.client.portal import Portal, blocking
from mutirao.model.filters.filter import Filter, parse
from mutirao.model.filters.suggesting import MOST_NAMES, Known
from mutirao.model.jobs.records import JobFilter, checked_id
from mutirao.model.reading.figures import (
    Counted,
    ErrorFigure,
    HourFigure,
    MinuteFigure,
    Page,
    QueueFigure,
    RunningJob,
    WaitFigure,
    checked_size,
    read_cursor,
)
from mutirao.model.reading.standing import Reason, ReasonKind, explain
from mutirao.ports import Store

Wanted = str | Filter | JobFilter
_DAY = timedelta(days=1)
_AT_ONCE = 10_000  # ids


class HasStore(Protocol):
    """An application, or another object with a store."""

    @property
    def store(self) -> Store:
        """The store."""
        ...


class Reading:
    """Reads an application's jobs for pages."""

    def __init__(self, app: HasStore, portal: Portal) -> None:
        self._app, self._portal = app, portal

    async def asearch(
        self, which: Wanted = "", *, cursor: str | None = None, size: int = 50
    ) -> Page:
        """Return a page of the jobs that match a filter, newest first.

        Parameters:
            which: a filter's text, or a parsed filter.
            cursor: `Page.next` of the page before; None: the first page.
            size: the number of jobs, up to 1,000.

        Raises:
            InvalidFilter: the text is no filter, the cursor is none of a page, or `size` is out of
                range.
        """
        before = None if cursor is None else read_cursor(cursor)
        chosen, size = _chosen(which), checked_size(size)
        return await self._app.store.reading.page(chosen, before=before, size=size)

    search = blocking(asearch)

    async def ahow_many(
        self, which: Wanted = "", *, most: int = 10_000, windows: int = 1
    ) -> Counted:
        """Count the jobs that match a filter, up to `most`; the result may be a lower bound.

        Parameters:
            which: a filter's text, or a parsed filter.
            most: the number up to which jobs are counted.
            windows: how many times 20,000 jobs are read if no index knows which jobs match; more of
                them take longer.

        Raises:
            InvalidFilter: the text is no filter.
        """
        chosen = _chosen(which)
        if windows == 1:
            return await self._app.store.reading.how_many(chosen, most=most)
        return await self._counted(chosen, most, windows)

    async def _counted(self, which: JobFilter, most: int, windows: int) -> Counted:
        """Count window by window; each is a transaction of its own."""
        jobs, before = 0, None
        for _ in range(windows):
            size = min(most + 1 - jobs, _AT_ONCE)
            found, before = await self._app.store.audit.matching_ids(
                which, before=before, size=size
            )
            jobs += len(found)
            if jobs > most or before is None:
                break
        return Counted(min(jobs, most), at_least=jobs > most or before is not None)

    how_many = blocking(ahow_many)

    async def afigures(self) -> list[QueueFigure]:
        """Count the jobs of every queue by state."""
        return await self._app.store.reading.figures()

    figures = blocking(afigures)

    async def ahours(self, since: datetime, *, queue: str | None = None) -> list[HourFigure]:
        """Return the attempts of each hour from an aware moment on, by queue, task and outcome."""
        return await self._app.store.reading.hours(since, queue=queue)

    hours = blocking(ahours)

    async def aminutes(self, minutes: int = 60) -> list[MinuteFigure]:
        """Return how many attempts ended in each of the last minutes, by outcome."""
        since = datetime.now(UTC) - timedelta(minutes=minutes)
        return await self._app.store.reading.minutes(since)

    minutes = blocking(aminutes)

    async def awaits(self, sample: int = 1_000) -> list[WaitFigure]:
        """Return how long the newest jobs waited for their start, by queue."""
        return await self._app.store.reading.waits(sample=sample)

    waits = blocking(awaits)

    async def aerrors(self, *, task: str | None = None, limit: int = 100) -> list[ErrorFigure]:
        """Return errors, the last one first, each with the filter of its jobs."""
        return await self._app.store.reading.errors(task=task, limit=limit)

    errors = blocking(aerrors)

    async def arunning(self, *, worker: int | None = None, limit: int = 500) -> list[RunningJob]:
        """Return running jobs, of one worker or of all; the earliest first."""
        return await self._app.store.reading.running(worker=worker, limit=limit)

    running = blocking(arunning)

    async def awhy(self, id: int) -> tuple[Reason, ...]:
        """Return why a job is not running, the most decisive reason first.

        Raises:
            UnknownJob: there is no job with this id.
        """
        store = self._app.store
        found = await store.reading.standing(checked_id(id))
        if found is None:
            job = await store.job(id)
            return (Reason(ReasonKind.ENDED, f"it has ended: {job.state}", {"state": job.state}),)
        return explain(found, await store.workers(near=True), datetime.now(UTC))

    why = blocking(awhy)

    async def aknown(self) -> Known:
        """Return the names of queues, tasks and errors that are in use, for suggestions."""
        reading = self._app.store.reading
        figures, errors = await reading.figures(), await reading.errors(limit=MOST_NAMES)
        hours = await reading.hours(datetime.now(UTC) - _DAY)
        return Known(
            queues=_names([*(each.queue for each in figures), *(each.queue for each in hours)]),
            tasks=_names([*(each.task for each in hours), *(each.task for each in errors)]),
            errors=_names(each.error_type for each in errors),
        )

    known = blocking(aknown)


def _chosen(which: Wanted) -> JobFilter:
    if isinstance(which, JobFilter):
        return which
    found = which if isinstance(which, Filter) else parse(which)
    return found.at(datetime.now(UTC))


def _names(found: Iterable[str | None]) -> tuple[str, ...]:
    return tuple(sorted({each for each in found if each})[:MOST_NAMES])
