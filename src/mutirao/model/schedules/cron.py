"""The times of a schedule's ticks: pure functions of time, on top of cronsim and zoneinfo.

A cron line is in local time. It ticks when the local clock first reaches one of its times, or is
put forward past it: a time that a zone skips ticks at the first moment after the gap, and a time
that a zone repeats ticks only the first time. Only a line of all 24 hours counts real time: it
ticks whenever the local clock shows one of its times, so that a job of every five minutes keeps
that rhythm while the clock is put back. docs/schedules.md explains what that means in every case.

cronsim parses the lines and walks over local times without a zone; this module maps those to real
time. cronsim's own walk through a zone assumes that every shift is one of whole hours.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import suppress
from copy import copy
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError
from cronsim.cronsim import SYMBOLIC_DAYS, SYMBOLIC_MONTHS

from mutirao.errors import InvalidSchedule
from mutirao.model.schedules.schedule import Schedule

SECOND = timedelta(seconds=1)
DAY = timedelta(days=1)
FIRST_WINDOW = timedelta(hours=1)
WINDOW_GROWTH = 8  # factor by which the next window is larger
ANY_MOMENT = datetime(2000, 1, 1, tzinfo=UTC)
HOURS_PER_DAY = 24
RANGE_WITH_STEP = re.compile(r"(?<![^\s,])(\w+)-(\w+)/0*[1-9][0-9]*(?![^\s,])")
ALIASES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
NUMBERS = {name: str(n) for n, name in [*enumerate(SYMBOLIC_DAYS), *enumerate(SYMBOLIC_MONTHS, 1)]}


def next_tick(schedule: Schedule, after: datetime) -> datetime | None:
    """Return the first tick after a moment, in UTC, or None if there is none in fifty years.

    For a schedule with `every`, that is one interval after the moment; the caller chooses the
    moment to count from.

    Raises:
        InvalidSchedule: the cron line or the time zone is invalid.
    """
    if schedule.every is not None:
        return after.astimezone(UTC) + schedule.every
    return next(_cron_ticks(schedule, after), None)


def ticks_until(schedule: Schedule, first: datetime, now: datetime, most: int) -> list[datetime]:
    """Return the last `most` ticks from `first`, itself a tick, until `now`; at least one.

    Takes no longer when there are many: it searches back from `now`, each time further.
    """
    first, now = first.astimezone(UTC), now.astimezone(UTC)  # in other zones hours differ in length
    if schedule.every is not None:
        passed = (now - first) // schedule.every
        begin = max(0, passed - most + 1)
        return [first + schedule.every * n for n in range(begin, passed + 1)]
    window = FIRST_WINDOW
    while now - window > first:
        found = _between(schedule, now - window, now)
        if len(found) >= most:
            return found[-most:]
        window *= WINDOW_GROWTH
    return [first, *_between(schedule, first, now)][-most:]


def check_times(schedule: Schedule) -> None:
    """Raise InvalidSchedule if the zone is unknown, the cron line is invalid, or it never ticks."""
    zone(schedule.timezone)
    if schedule.cron is not None and next(_cron_ticks(schedule, ANY_MOMENT), None) is None:
        raise InvalidSchedule(
            f"the cron line {schedule.cron!r} never ticks: no day has that day of the month, month"
            " and day of the week"
        )


@lru_cache(maxsize=256)
def zone(name: str) -> tzinfo:
    """Return the time zone of that name; raise InvalidSchedule if there is none."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, TypeError, OSError):
        raise InvalidSchedule(
            f"there is no time zone {name!r} here; give one such as America/Sao_Paulo or UTC"
            " (where the system has no zones at all, `pip install tzdata` brings them)"
        ) from None


def _between(schedule: Schedule, after: datetime, now: datetime) -> list[datetime]:
    found = []
    for tick in _cron_ticks(schedule, after):
        if tick > now:
            break
        found.append(tick)
    return found


def _cron_ticks(schedule: Schedule, after: datetime) -> Iterator[datetime]:
    """Yield the ticks after a moment, in UTC and in order, each once."""
    line, place = _parse(schedule.cron or ""), zone(schedule.timezone)
    ticks = _by_real_time if len(line.hours) == HOURS_PER_DAY else _by_local_time
    with suppress(OverflowError):  # the calendar ends
        yield from ticks(line, place, after.astimezone(UTC))


def _by_local_time(line: CronSim, place: tzinfo, after: datetime) -> Iterator[datetime]:
    """Yield the moments at which the local clock first reaches or passes a time of the line."""
    times = _times(line, _shown(after, place))
    last = after
    for local in times:
        tick = _reached(local, place)
        if tick > last:
            last = tick
            yield tick
            times.dt = max(local, _shown(tick, place))  # all skipped times tick once


def _by_real_time(line: CronSim, place: tzinfo, after: datetime) -> Iterator[datetime]:
    """Yield the moments at which the local clock shows a time of the line, repeated or not."""
    begin = after.replace(microsecond=0) + SECOND
    while True:
        shown, change = _shown(begin, place), _change(begin, place)
        end = change or begin + DAY
        for local in _times(line, shown - SECOND):
            tick = begin + (local - shown)
            if tick >= end:
                break
            yield tick
        else:
            return
        # Offsets differ by less than two days, so no clock change can cause a tick before that.
        begin = change or max(end, tick - 2 * DAY)


def _shown(moment: datetime, place: tzinfo) -> datetime:
    """Return the local time of a place at a moment, without a zone."""
    return moment.astimezone(place).replace(tzinfo=None)


def _reached(local: datetime, place: tzinfo) -> datetime:
    """Return the first moment at which the clock of a place shows a local time or a later one."""
    first, second = (local.replace(tzinfo=place, fold=fold).astimezone(UTC) for fold in (0, 1))
    if first <= second:
        return first
    # The zone skips it: with the offset before the gap it lies after the gap, and vice versa.
    return _first(second, first, lambda moment: _shown(moment, place) >= local)


def _change(begin: datetime, place: tzinfo) -> datetime | None:
    """Return when the clock of a place changes within the day after a moment, or None."""
    offset = _shown(begin, place) - begin.replace(tzinfo=None)

    def changed(moment: datetime) -> bool:
        return _shown(moment, place) - moment.replace(tzinfo=None) != offset

    return _first(begin, begin + DAY, changed) if changed(begin + DAY) else None


def _first(begin: datetime, end: datetime, holds: Callable[[datetime], bool]) -> datetime:
    """Return the first moment at which a condition holds, to the second.

    The condition holds at the end and not at the beginning.
    """
    seconds = range((end - begin) // SECOND)
    return begin + SECOND * bisect_left(seconds, True, key=lambda n: holds(begin + SECOND * n))


def _times(line: CronSim, after: datetime) -> CronSim:
    """Return an iterator over the local times of a line after one of them."""
    times = copy(line)
    times.dt = after.replace(microsecond=0)
    return times


@lru_cache(maxsize=256)
def _parse(line: str) -> CronSim:
    """Parse a cron line; raise InvalidSchedule if it is invalid.

    The result is shared: callers must not iterate over it.
    """
    line = _without_alias(line)
    try:
        return CronSim(RANGE_WITH_STEP.sub(_without_range_of_one, line.upper()), ANY_MOMENT)
    except (CronSimError, ValueError) as error:  # a number of thousands of digits is a ValueError
        raise InvalidSchedule(
            f"{line!r} is no cron line ({error}); write minute, hour, day of month, month and day"
            " of week, as in '*/5 * * * *' or '30 3 * * MON-FRI'"
        ) from None


def _without_alias(line: str) -> str:
    """Return the cron line that `@daily` and its like stand for, and other lines as they are."""
    word = line.strip().lower()
    if word == "@reboot":
        raise InvalidSchedule(
            "'@reboot' is no time: a database has no start to wait for; enqueue the job where your"
            " program starts, and give a cron line or one of " + ", ".join(ALIASES) + " here"
        )
    if word.startswith("@") and word not in ALIASES:
        raise InvalidSchedule(
            f"{line!r} is no cron line; of those words there are {', '.join(ALIASES)}"
        )
    return ALIASES.get(word, line)


def _without_range_of_one(term: re.Match[str]) -> str:
    """Return `2` for `2-2/2`, because cronsim reads that as `2/2`, every second value from 2 on."""
    begin, end = (NUMBERS.get(bound, bound).lstrip("0") for bound in term.groups())
    return term[1] if begin == end else term[0]
