"""The overview: what is done, what waits and for how long, what fails, and who works."""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from starlette.responses import Response

from mutirao.model.jobs.hours import FAILED_OUTCOME_NAMES
from mutirao.model.jobs.job import OutcomeKind
from mutirao.web.charts import Point, chart
from mutirao.web.page import SitePage
from mutirao.web.pages.error_groups import errors_of
from mutirao.web.pages.queues import Queue, queues_of
from mutirao.web.visit import Visit

HOURS, MINUTES = 24, 60
_HOUR, _MINUTE = timedelta(hours=1), timedelta(minutes=1)


async def show(visit: Visit) -> Response:
    """Show the overview; to whoever sees only some jobs, those."""
    if visit.access.only:
        return visit.back(visit.url("jobs"))
    readings, desk = visit.site.readings, visit.desk
    hour = visit.now.replace(minute=0, second=0, microsecond=0)
    minute = visit.now.replace(second=0, microsecond=0)
    since = hour - _HOUR * (HOURS - 1)

    queues = await queues_of(visit)
    hours = await readings.get(f"hours {since}", lambda: desk.reading.ahours(since), 10)
    minutes = await readings.get("minutes", lambda: desk.reading.aminutes(MINUTES), 4)
    workers = await readings.get("workers", desk.aworkers)
    errors = await readings.get("errors", lambda: desk.reading.aerrors(limit=6), 10)

    by_hour = chart(_points(((each.hour, each) for each in hours), since, _HOUR, HOURS))
    by_minute = chart(
        _points(
            ((each.minute, each) for each in minutes),
            minute - _MINUTE * (MINUTES - 1),
            _MINUTE,
            MINUTES,
        )
    )
    return visit.page(
        "overview.html",
        queues=queues,
        totals=_totals(queues),
        by_hour=by_hour,
        by_minute=by_minute,
        workers=[each for each in workers if each.alive],
        gone=sum(not each.alive for each in workers),
        errors=errors_of(visit, errors),
        age=readings.age("figures"),
    )


def _points(
    figures: Iterable[tuple[datetime, Any]], first: datetime, step: timedelta, number: int
) -> list[Point]:
    """Return a point for each span of time from `first` on, also where nothing was done."""
    good, bad = Counter[datetime](), Counter[datetime]()
    for moment, each in figures:
        if each.outcome == OutcomeKind.SUCCEEDED:
            good[moment] += each.attempts
        elif each.outcome in FAILED_OUTCOME_NAMES:
            bad[moment] += each.attempts
    times = [first + step * place for place in range(number)]
    return [Point(each, good[each], bad[each]) for each in times]


def _totals(queues: Iterable[Queue]) -> Queue:
    """Return the sums of all queues, and the oldest of them."""
    total = Queue("")
    for each in queues:
        for state, number in each.jobs.items():
            total.jobs[state] += number
        total.at_least = total.at_least or each.at_least
        if each.oldest is not None:
            total.oldest = max(total.oldest or 0.0, each.oldest)
    return total


PAGE = SitePage(path="/", name="overview", show=show, whole=False)
