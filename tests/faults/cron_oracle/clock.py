"""The clocks of a zone: when they are put forward or back, and their time minute by minute."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import pairwise
from typing import NamedTuple
from zoneinfo import ZoneInfo, available_timezones

SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)
EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - naive, as all moments here, which are in UTC

Walk = list[tuple[datetime, datetime]]  # moments in UTC, and what the clock shows then


class Span(NamedTuple):
    """Two moments between which the clocks of some zones, which are alike, were put once."""

    zones: tuple[str, ...]
    begin: datetime
    end: datetime
    shift: timedelta

    @property
    def odd(self) -> bool:
        """Whether the shift is no whole hour, or more than one."""
        return abs(self.shift) != HOUR


class Change(NamedTuple):
    """The first moment, in UTC, of another offset."""

    zone: str
    at: datetime
    before: timedelta
    after: timedelta


def spans(since: int, until: int, step: timedelta) -> list[Span]:
    """Return the spans of all zones between two years; zones that show the same count once."""
    begin, end = EPOCH.replace(year=since), EPOCH.replace(year=until)
    moments = [begin + step * n for n in range((end - begin) // step)]
    alike: dict[tuple[timedelta | None, ...], list[str]] = {}
    for name in sorted(available_timezones()):
        # By local time, which is many times faster; the moment itself is looked for in UTC.
        offsets = tuple(map(ZoneInfo(name).utcoffset, moments))
        alike.setdefault(offsets, []).append(name)
    return [
        Span(tuple(names), first, second, after - before)
        for offsets, names in alike.items()
        for (first, before), (second, after) in pairwise(zip(moments, offsets, strict=True))
        if before is not None and after is not None and before != after
    ]


def change(zone: str, span: Span) -> Change:
    """Return the change within a span."""
    place = ZoneInfo(zone)
    begin, end = span.begin - 48 * HOUR, span.end + 48 * HOUR  # they are local times
    first = _offset(begin, place)
    while end - begin > SECOND:
        middle = begin + (end - begin) // 2 // SECOND * SECOND
        if _offset(middle, place) == first:
            begin = middle
        else:
            end = middle
    return Change(zone, end, _offset(begin, place), _offset(end, place))


def walk(change: Change, margin: timedelta) -> Walk:
    """Return every minute around a change, and the change itself.

    Offsets may have seconds: all moments at which a clock by the one offset or by the other shows a
    whole minute are among them.
    """
    place = ZoneInfo(change.zone)
    end = change.at + abs(change.after - change.before) + margin
    moments = {change.at}
    for seconds in {change.before % MINUTE, change.after % MINUTE}:
        first = change.at - margin
        first -= (first + seconds - EPOCH) % MINUTE
        moments.update(first + MINUTE * n for n in range((end - first) // MINUTE))
    return [(moment, _shown(moment, place)) for moment in sorted(moments)]


def _shown(moment: datetime, place: ZoneInfo) -> datetime:
    # `astimezone` calls it, and takes five times as long.
    return place.fromutc(moment.replace(tzinfo=place)).replace(tzinfo=None)


def _offset(moment: datetime, place: ZoneInfo) -> timedelta:
    return _shown(moment, place) - moment
