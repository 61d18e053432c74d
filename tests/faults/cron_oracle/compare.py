"""Random cron lines around the changes of all zones' clocks: the rule's ticks, and ours."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import chain, cycle, islice
from random import Random

from mutirao.model.jobs.job import NewJob
from mutirao.model.schedules.cron import next_tick, ticks_until
from mutirao.model.schedules.schedule import Schedule
from tests.faults.cron_oracle.clock import EPOCH, SECOND, Span, change, spans, walk
from tests.faults.cron_oracle.line import Line
from tests.faults.cron_oracle.random_lines import random_date_line, random_line
from tests.faults.cron_oracle.rule import ticks

DAY = timedelta(days=1)
MOMENTS = 2  # of each kind, after which the next tick is asked for
MOST = 40  # ticks looked back for


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How much is compared.

    Parameters:
        seed: of all that is random.
        lines: how many, each around a change of its own, as far as there are any: odd ones first.
        dates: how many lines are compared day by day, over a year.
        since: the year from which on changes are looked for.
        until: the year before which they end.
        step: days; changes at greater distances are all found.
        margin: hours that are compared before and after a change.
    """

    seed: int = 1
    lines: int = 2_000
    dates: int = 100
    since: int = 1900
    until: int = 2040
    step: float = 14
    margin: float = 2


@dataclass
class Report:
    """What was compared, and every difference."""

    lines: int = 0
    ticks: int = 0
    changes: int = 0
    odd: int = 0
    zones: set[str] = field(default_factory=set)
    differences: list[str] = field(default_factory=list)

    def add(self, schedule: Schedule, expected: list[datetime], differences: list[str]) -> None:
        """Note a line."""
        self.lines += 1
        self.ticks += len(expected)
        prefix = f"{schedule.cron!r} in {schedule.timezone}: "
        self.differences += [prefix + difference for difference in differences]


def compare(plan: Plan) -> Report:
    """Compare, and return all differences."""
    random, report = Random(plan.seed), Report()
    found = spans(plan.since, plan.until, timedelta(days=plan.step))
    odd = [span for span in found if span.odd]
    others = [span for span in found if not span.odd]
    random.shuffle(odd)
    random.shuffle(others)
    for span in islice(cycle(odd + others), plan.lines):
        _around(span, timedelta(hours=plan.margin), random, report)
    for _ in range(plan.dates):
        _dates(random, report)
    return report


def _around(span: Span, margin: timedelta, random: Random, report: Report) -> None:
    """Compare lines around a change, in one of the zones that show it."""
    found = change(random.choice(span.zones), span)
    minutes = walk(found, margin)
    begin, end = minutes[0][0], minutes[-1][0]
    report.changes += 1
    report.odd += span.odd
    report.zones.add(found.zone)
    about = abs(found.after - found.before) + timedelta(minutes=30)
    text = random_line(random, found.at + found.before + about * random.uniform(-1, 1))
    expected = ticks(Line(text), minutes)
    asked = [found.at - SECOND, found.at, *_some_moments(expected, begin, end, random)]
    schedule = Schedule(name="s", job=NewJob(task="t"), cron=text, timezone=found.zone)
    report.add(schedule, expected, _differences(schedule, expected, asked, end, random))


def _dates(random: Random, report: Report) -> None:
    """Compare a line that ticks once a day at most, without changes of the clock."""
    begin = EPOCH.replace(year=random.randint(1990, 2040), month=random.randint(1, 12))
    text = random_date_line(random, begin + DAY * random.randint(0, 365))
    line, end = Line(text), begin + 366 * DAY
    (minute,), (hour,) = line.minutes, line.hours
    days = (begin + DAY * n for n in range(366))
    expected = [day.replace(hour=hour, minute=minute) for day in days if line.fits_day(day.date())]
    asked = _some_moments(expected, begin - SECOND, end, random)
    schedule = Schedule(name="s", job=NewJob(task="t"), cron=text)
    report.add(schedule, expected, _differences(schedule, expected, asked, end, random))


def _some_moments(
    expected: list[datetime], begin: datetime, end: datetime, random: Random
) -> list[datetime]:
    """Return moments of which some are ticks; all naive, in UTC."""
    anywhere = [begin + (end - begin) * random.random() for _ in range(MOMENTS)]
    return random.sample(expected, min(MOMENTS, len(expected))) + anywhere


def _differences(
    schedule: Schedule,
    expected: list[datetime],
    asked: list[datetime],
    end: datetime,
    random: Random,
) -> list[str]:
    return [
        *chain.from_iterable(_next_differs(schedule, expected, after, end) for after in asked),
        *(_looking_back_differs(schedule, expected, end, random) if expected else ()),
    ]


def _next_differs(
    schedule: Schedule, expected: list[datetime], after: datetime, end: datetime
) -> Iterator[str]:
    right = next(iter(expected[bisect_right(expected, after) :]), None)
    tick = next_tick(schedule, after.replace(tzinfo=UTC))
    found = tick and tick.replace(tzinfo=None)
    if found != right and (right is not None or (found is not None and found <= end)):
        yield f"after {after} the next tick is at {right}, and not at {found} (UTC)"


def _looking_back_differs(
    schedule: Schedule, expected: list[datetime], end: datetime, random: Random
) -> Iterator[str]:
    first, most = random.choice(expected), random.randint(1, MOST)
    now = first + (end - first) * random.random()
    passed = expected[bisect_left(expected, first) : bisect_right(expected, now)]
    found = ticks_until(schedule, first.replace(tzinfo=UTC), now.replace(tzinfo=UTC), most)
    if [tick.replace(tzinfo=None) for tick in found] != passed[-most:]:
        yield f"the last {most} ticks from {first} until {now} are {passed}, and not {found} (UTC)"
