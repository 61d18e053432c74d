"""A cron line of five fields, and whether a minute of local time is one of its times."""

from __future__ import annotations

import calendar
import re
from datetime import date, datetime
from typing import NamedTuple

DAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
TERM = re.compile(r"(?P<all>\*)|(?P<begin>\w+?)(?:-(?P<end>\w+))?")
SUNDAY = 7  # is 0, too


class Field(NamedTuple):
    """The numbers of a field, and their names."""

    low: int
    high: int
    names: tuple[str, ...] = ()

    def number(self, text: str) -> int:
        """Return the number that a text means."""
        number = self.low + self.names.index(text) if text in self.names else int(text)
        assert self.low <= number <= self.high, text
        return number

    def read(self, text: str) -> set[int]:
        """Return all numbers of a list."""
        return set().union(*(self._term(term) for term in text.split(",")))

    def _term(self, text: str) -> range:
        span, _, step = text.partition("/")
        found = TERM.fullmatch(span)
        assert found, text
        if found["all"]:
            begin, end = self.low, self.high
        else:
            begin = end = self.number(found["begin"])
            if found["end"]:
                end = self.number(found["end"])
            elif step:
                end = self.high
        assert begin <= end, text
        return range(begin, end + 1, int(step or 1))


MINUTE, HOUR, DAY = Field(0, 59), Field(0, 23), Field(1, 31)
MONTH, WEEKDAY = Field(1, 12, MONTHS), Field(0, SUNDAY, DAYS)


class Line:
    """A cron line. `every_hour` says whether it counts real time."""

    def __init__(self, text: str) -> None:
        minute, hour, day, month, weekday = text.upper().split()
        self.minutes, self.hours = MINUTE.read(minute), HOUR.read(hour)
        self.months = MONTH.read(month)
        self.days, self.weekdays = _days(day), _weekdays(weekday)
        self.both = day.startswith("*") or weekday.startswith("*")
        self.every_hour = self.hours == set(range(24))
        self._known: dict[date, bool] = {}

    def fits(self, local: datetime) -> bool:
        """Whether a local time is one of the line."""
        return (
            local.minute in self.minutes
            and local.hour in self.hours
            and local.second == 0
            and self.fits_day(local.date())
        )

    def fits_day(self, day: date) -> bool:
        """Whether a date is one of the line."""
        if day not in self._known:
            by_day = not self.days.isdisjoint(_called(day))
            by_weekday = not self.weekdays.isdisjoint(_called_in_the_week(day))
            fits = (by_day and by_weekday) if self.both else (by_day or by_weekday)
            self._known[day] = fits and day.month in self.months
        return self._known[day]


def _days(text: str) -> set[str]:
    """Return what the days of the month are called: `15`, `L`, `LW`."""
    terms = text.split(",")
    last = {term for term in terms if term in ("L", "LW")}
    numbers = ",".join(term for term in terms if term not in last)
    return last | ({str(number) for number in DAY.read(numbers)} if numbers else set())


def _weekdays(text: str) -> set[str]:
    """Return what the days of the week are called: `1`, `1L`, `1#3`; Sunday is `0`."""
    found = set()
    for term in text.split(","):
        special = re.fullmatch(r"(\w+)(#[1-5])|([0-7])(L)", term)
        if special:
            name, suffix = (part for part in special.groups() if part)
            found.add(f"{WEEKDAY.number(name) % SUNDAY}{suffix}")
        else:
            found |= {str(number % SUNDAY) for number in WEEKDAY.read(term)}
    return found


def _called(day: date) -> set[str]:
    """Return all that may stand for a date as the day of its month."""
    last = calendar.monthrange(day.year, day.month)[1]
    working = max(n for n in range(last - 2, last + 1) if day.replace(day=n).isoweekday() < 6)
    names = {str(day.day): True, "L": day.day == last, "LW": day.day == working}
    return {name for name, right in names.items() if right}


def _called_in_the_week(day: date) -> set[str]:
    """Return all that may stand for a date as a day of the week."""
    name = str(day.isoweekday() % SUNDAY)
    last = day.day + 7 > calendar.monthrange(day.year, day.month)[1]
    return {name, f"{name}#{(day.day + 6) // 7}", *([f"{name}L"] if last else [])}
