"""Cron lines of every kind, many of which tick near a given local time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from random import Random

from tests.faults.cron_oracle.line import DAY, DAYS, HOUR, MINUTE, MONTH, MONTHS, WEEKDAY, Field

EVERY_HOUR = ("*", "*", "*", "*/1", "0-23", "0-11,12-23", "0/1")


def random_line(random: Random, near: datetime) -> str:
    """Return a line of five fields; its months include the one of `near`, its hours often do."""
    hour = random.choice(EVERY_HOUR) if _sometimes(random, 0.3) else _field(random, HOUR, near.hour)
    day, weekday = _dates(random, near)
    return " ".join((_field(random, MINUTE, near.minute), hour, day, _month(random, near), weekday))


def random_date_line(random: Random, near: datetime) -> str:
    """Return a line of one time a day."""
    day, weekday = _dates(random, near)
    hour, minute = random.randint(0, 23), random.randint(0, 59)
    return f"{minute} {hour} {day} {_month(random, near)} {weekday}"


def _dates(random: Random, near: datetime) -> tuple[str, str]:
    day = weekday = "*"
    if _sometimes(random, 0.4):
        day = _with(random, ("L", "LW"), _field(random, DAY, near.day, highest=28))
    if _sometimes(random, 0.4):
        number = near.isoweekday() % random.choice((7, 8))
        special = [f"{number}L", f"{random.choice(DAYS)}#{random.randint(1, 5)}"]
        weekday = _with(random, special, _field(random, WEEKDAY, number, DAYS))
    return day, weekday


def _month(random: Random, near: datetime) -> str:
    text = "*" if _sometimes(random, 0.6) else _field(random, MONTH, near.month, MONTHS)
    # A line that ticks in no year is refused; so is `0 0 31 2 *`.
    return text if near.month in MONTH.read(text.upper()) else f"{text},{near.month}"


def _with(random: Random, special: Sequence[str], usual: str) -> str:
    if _sometimes(random, 0.8):
        return usual
    return random.choice(special) + (f",{usual}" if _sometimes(random, 0.3) else "")


def _field(
    random: Random, field: Field, near: int, names: Sequence[str] = (), highest: int | None = None
) -> str:
    terms = 1 if _sometimes(random, 0.7) else random.randint(2, 3)
    return ",".join(_term(random, field, near, names, highest) for _ in range(terms))


def _term(
    random: Random, field: Field, near: int, names: Sequence[str], highest: int | None
) -> str:
    def number() -> int:
        any_one = random.randint(field.low, highest or field.high)
        return near if _sometimes(random, 0.5) else any_one

    def text(number: int) -> str:
        if names and _sometimes(random, 0.3) and number - field.low < len(names):
            return random.choice((str.upper, str.lower))(names[number - field.low])
        return str(number)

    begin, end = sorted((number(), number()))
    step = f"/{random.randint(1, random.choice((3, field.high)))}"
    return random.choice(
        (
            text(begin),
            f"*{step}",
            f"{text(begin)}-{text(end)}",
            f"{text(begin)}-{text(end)}{step}",
            f"{text(begin)}-{text(begin)}{step}",
            f"{text(begin)}{step}",
        )
    )


def _sometimes(random: Random, share: float) -> bool:
    return random.random() < share
