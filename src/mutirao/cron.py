"""When the ticks of a schedule are: pure functions of time, over cronsim and zoneinfo.

A cron line means local time. A local time that a zone skips ticks once, at the first moment after
the gap; one that it repeats ticks once, the first time. Only a line whose hour is `*` counts real
time, so that what runs every five minutes keeps doing so while the clock is put back.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from itertools import islice
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from mutirao.errors import InvalidSchedule
from mutirao.schedule import Schedule

MINUTE = timedelta(minutes=1)
FIRST_WINDOW = timedelta(hours=1)
WIDER = 8  # times, the next window
SOME_TIME = datetime(2000, 1, 1, tzinfo=UTC)


def next_tick(schedule: Schedule, after: datetime) -> datetime | None:
    """Return the first tick after a moment, in UTC, or None if there is none in fifty years.

    For an `every` that is one such time after the moment: what it counts from is the caller's.

    Raises:
        InvalidSchedule: the cron line or the zone is none.
    """
    if schedule.every is not None:
        return after.astimezone(UTC) + schedule.every
    return next(_cron_ticks(schedule, after), None)


def ticks_until(schedule: Schedule, first: datetime, now: datetime, most: int) -> list[datetime]:
    """Return the last `most` ticks from `first`, which is one, until `now`; at least one.

    Takes no longer when they are many: it looks back from `now`, further each time.
    """
    first, now = first.astimezone(UTC), now.astimezone(UTC)  # elsewhere hours are not all equal
    if schedule.every is not None:
        passed = (now - first) // schedule.every
        begin = max(0, passed - most + 1)
        return [first + schedule.every * n for n in range(begin, passed + 1)]
    window = FIRST_WINDOW
    while now - window > first:
        found = _between(schedule, now - window, now)
        if len(found) >= most:
            return found[-most:]
        window *= WIDER
    return [first, *_between(schedule, first, now)][-most:]


def check_times(schedule: Schedule) -> None:
    """Raise InvalidSchedule if the zone is unknown, the cron line is none, or it never ticks."""
    zone(schedule.timezone)
    if schedule.cron is not None and next(_cron_ticks(schedule, SOME_TIME), None) is None:
        raise InvalidSchedule(
            f"the cron line {schedule.cron!r} never ticks: no day has that day of the month, month"
            " and day of the week"
        )


@lru_cache(maxsize=256)
def zone(name: str) -> tzinfo:
    """Return the time zone of that name. Raises InvalidSchedule."""
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
    local = after.astimezone(zone(schedule.timezone))
    line = schedule.cron or ""
    last = after.astimezone(UTC)
    for found in _locally(line, local):
        tick = _moment(found, local.tzinfo)
        if tick > last:
            last = tick
            yield tick


def _locally(line: str, local: datetime) -> Iterator[datetime]:
    if _parse(line, local).parts[2] == "*":
        return _each(_parse(line, local))
    return _each(_parse(line, local.replace(tzinfo=None, fold=0)))


def _each(line: CronSim) -> Iterator[datetime]:
    while True:
        try:
            found = next(line)
        except (StopIteration, OverflowError):  # nothing in fifty years, or the calendar ends
            return
        yield found


def _moment(local: datetime, place: tzinfo | None) -> datetime:
    """Return a local time in UTC; the first moment after the gap for one that does not exist."""
    if local.tzinfo is not None:
        return local.astimezone(UTC)
    moment = local.replace(tzinfo=place).astimezone(UTC)
    if moment.astimezone(place).replace(tzinfo=None) == local:
        return moment
    return _after_the_gap(moment, place)


def _after_the_gap(moment: datetime, place: tzinfo | None) -> datetime:
    """Return the moment the clock was put forward, which is up to a day before `moment`."""
    # A skipped local time is read with the offset before the gap, and so lies behind it.
    offset = moment.astimezone(place).utcoffset()
    candidates = (moment.replace(second=0, microsecond=0) - n * MINUTE for n in range(1_441))
    for each in islice(candidates, 1_441):
        if (each - MINUTE).astimezone(place).utcoffset() != offset:
            return each
    raise AssertionError(f"no clock was put forward in the day before {moment}")


def _parse(line: str, start: datetime) -> CronSim:
    try:
        return CronSim(line, start)
    except CronSimError as error:
        raise InvalidSchedule(
            f"{line!r} is no cron line ({error}); write minute, hour, day of month, month and day"
            " of week, as in '*/5 * * * *' or '30 3 * * MON-FRI'"
        ) from None
