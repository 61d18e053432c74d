"""Schedules: their next ticks, and the results of their last jobs."""

from datetime import datetime, timedelta

from starlette.responses import Response

from mutirao.errors import InvalidSchedule
from mutirao.model.jobs.job import NewJob
from mutirao.model.schedules.cron import next_tick
from mutirao.model.schedules.schedule import Schedule, ScheduleRecord
from mutirao.web.page import SitePage
from mutirao.web.page_call import PageCall

MOST, TICKS = 200, 3


async def show(call: PageCall) -> Response:
    """Show the schedules."""
    readings = call.site.readings
    schedules = await readings.get("schedules", call.client.schedules.alist)
    shown = sorted(schedules, key=lambda each: (each.next_at is None, each.next_at or call.now))
    return call.page(
        "schedules.html",
        schedules=[(each, ticks_of(each)) for each in shown[:MOST]],
        left_out=max(0, len(shown) - MOST),
        age=readings.age("schedules"),
    )


def ticks_of(record: ScheduleRecord) -> list[datetime]:
    """Return the next ticks of a schedule, the first of which is in the database."""
    if record.next_at is None:
        return []
    ticks = [record.next_at]
    try:
        schedule = Schedule(
            name=record.name, job=NewJob(task=record.task), cron=record.cron,
            every=None if record.every is None else timedelta(seconds=record.every),
            timezone=record.timezone, until=record.until,
        )  # fmt: skip
        while len(ticks) < TICKS and (tick := next_tick(schedule, ticks[-1])) is not None:
            ticks.append(tick)
    except (InvalidSchedule, OverflowError, ValueError):  # the row was changed by hand
        return ticks
    return ticks


PAGE = SitePage(path="/schedules", name="schedules", show=show)
