"""The overview: throughput, waiting jobs and their ages, failures, and workers."""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from starlette.responses import Response

from mutirao.model.jobs.hours import FAILED_OUTCOME_NAMES
from mutirao.model.jobs.job import OutcomeKind
from mutirao.web.drawing.charts import Point, chart
from mutirao.web.page import SitePage
from mutirao.web.page_call import PageCall
from mutirao.web.pages.error_groups import errors_of
from mutirao.web.pages.queues import Queue, queues_of

HOURS, MINUTES = 24, 60
_HOUR, _MINUTE = timedelta(hours=1), timedelta(minutes=1)


async def show(call: PageCall) -> Response:
    """Show the overview; to a caller that sees only some jobs, those."""
    if call.access.only:
        return call.back(call.url("jobs"))
    readings, client = call.site.readings, call.client
    hour = call.now.replace(minute=0, second=0, microsecond=0)
    minute = call.now.replace(second=0, microsecond=0)
    since = hour - _HOUR * (HOURS - 1)

    queues = await queues_of(call)
    hours = await readings.get(f"hours {since}", lambda: client.reading.ahours(since), 10)
    minutes = await readings.get("minutes", lambda: client.reading.aminutes(MINUTES), 4)
    workers = await readings.get("workers", client.aworkers)
    errors = await readings.get("errors", lambda: client.reading.aerrors(limit=6), 10)

    by_hour = chart(_points(((each.hour, each) for each in hours), since, _HOUR, HOURS))
    by_minute = chart(
        _points(
            ((each.minute, each) for each in minutes),
            minute - _MINUTE * (MINUTES - 1),
            _MINUTE,
            MINUTES,
        )
    )
    return call.page(
        "overview.html",
        queues=queues,
        totals=_totals(queues),
        by_hour=by_hour,
        by_minute=by_minute,
        workers=[each for each in workers if each.alive],
        gone=sum(not each.alive for each in workers),
        errors=errors_of(call, errors),
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
