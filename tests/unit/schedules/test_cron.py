"""When ticks are: with real zones, over their real changes of the clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings, strategies as st

from mutirao.errors import InvalidSchedule
from mutirao.model.jobs.job import NewJob
from mutirao.model.schedules.cron import check_times, next_tick, ticks_until
from mutirao.model.schedules.schedule import Schedule

JOB = NewJob(task="report")
DAY = timedelta(days=1)


def cron(line: str, timezone: str = "UTC") -> Schedule:
    """Return a schedule by a cron line."""
    return Schedule(name="s", job=JOB, cron=line, timezone=timezone)


def every(**length: float) -> Schedule:
    """Return a schedule by an interval."""
    return Schedule(name="s", job=JOB, every=timedelta(**length))


def utc(text: str) -> datetime:
    """Return a moment given in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def ticks(schedule: Schedule, after: str, until: str) -> list[str]:
    """Return the ticks after a moment, until another one: day, hour and minute in UTC."""
    found, at, end = [], utc(after), utc(until)
    while (tick := next_tick(schedule, at)) is not None and tick <= end:
        assert tick > at
        found.append(tick)
        at = tick
    return [f"{tick:%d %H:%M}" for tick in found]


@pytest.mark.parametrize(
    ("line", "zone", "after", "until", "expected"),
    [
        # Berlin, 29 March 2026: at 01:00 UTC the clock goes from 02:00 to 03:00.
        ("30 2 * * *", "Europe/Berlin", "2026-03-27 12:00", "2026-03-31 00:00",
         ["28 01:30", "29 01:00", "30 00:30"]),
        ("0,15,30 2 * * *", "Europe/Berlin", "2026-03-28 12:00", "2026-03-29 12:00", ["29 01:00"]),
        ("*/20 2 * * *", "Europe/Berlin", "2026-03-28 12:00", "2026-03-29 12:00", ["29 01:00"]),
        ("0 2,3 * * *", "Europe/Berlin", "2026-03-28 12:00", "2026-03-29 12:00", ["29 01:00"]),
        ("0 */6 * * *", "Europe/Berlin", "2026-03-28 22:00", "2026-03-29 22:00",
         ["28 23:00", "29 04:00", "29 10:00", "29 16:00", "29 22:00"]),
        ("30 * * * *", "Europe/Berlin", "2026-03-29 00:00", "2026-03-29 03:00",
         ["29 00:30", "29 01:30", "29 02:30"]),
        ("30 0-22 * * *", "Europe/Berlin", "2026-03-29 00:00", "2026-03-29 03:00",
         ["29 00:30", "29 01:00", "29 01:30", "29 02:30"]),
        # Berlin, 25 October 2026: at 01:00 UTC the clock goes from 03:00 back to 02:00.
        ("30 2 * * *", "Europe/Berlin", "2026-10-24 12:00", "2026-10-26 12:00",
         ["25 00:30", "26 01:30"]),
        ("30 2 * * *", "Europe/Berlin", "2026-10-25 00:45", "2026-10-25 12:00", []),
        ("30 2 * * *", "Europe/Berlin", "2026-10-25 01:10", "2026-10-25 12:00", []),
        ("*/30 2 * * *", "Europe/Berlin", "2026-10-24 12:00", "2026-10-25 12:00",
         ["25 00:00", "25 00:30"]),
        ("30 * * * *", "Europe/Berlin", "2026-10-25 00:00", "2026-10-25 02:00",
         ["25 00:30", "25 01:30"]),
        ("30 0-22 * * *", "Europe/Berlin", "2026-10-24 23:00", "2026-10-25 03:00",
         ["24 23:30", "25 00:30", "25 02:30"]),
        # São Paulo, 4 November 2018: midnight did not exist; 18 February 2018: 23:00 twice.
        ("0 0 * * *", "America/Sao_Paulo", "2018-11-03 00:00", "2018-11-06 00:00",
         ["03 03:00", "04 03:00", "05 02:00"]),
        ("30 23 * * *", "America/Sao_Paulo", "2018-02-17 00:00", "2018-02-20 00:00",
         ["17 01:30", "18 01:30", "19 02:30"]),
        # Lord Howe, 4 October 2026: half an hour, from 02:00 to 02:30 (15:30 UTC the day before).
        ("15 2 * * *", "Australia/Lord_Howe", "2026-10-02 00:00", "2026-10-05 00:00",
         ["02 15:45", "03 15:30", "04 15:15"]),
        ("53 * * * *", "Australia/Lord_Howe", "2026-10-03 14:00", "2026-10-03 17:00",
         ["03 14:23", "03 15:23", "03 15:53", "03 16:53"]),
        ("15 */1 * * *", "Australia/Lord_Howe", "2026-10-03 14:00", "2026-10-03 17:00",
         ["03 14:45", "03 16:15"]),
        # 5 April 2026: half an hour back, at 02:00 (15:00 UTC the day before).
        ("45 * * * *", "Australia/Lord_Howe", "2026-04-04 14:00", "2026-04-04 17:00",
         ["04 14:45", "04 15:15", "04 16:15"]),
        ("45 0-23 * * *", "Australia/Lord_Howe", "2026-04-04 14:00", "2026-04-04 17:00",
         ["04 14:45", "04 15:15", "04 16:15"]),
        ("45 0-22 * * *", "Australia/Lord_Howe", "2026-04-04 14:00", "2026-04-04 17:00",
         ["04 14:45", "04 16:15"]),
        # St John's, 29 October 2006: at 00:01 (02:31 UTC) the clock went back to the day before.
        ("59 * 28-29/2 * *", "America/St_Johns", "2006-10-29 01:00", "2006-10-29 12:00",
         ["29 01:29", "29 02:29", "29 03:29"]),
        # Troll, 29 March 2026: two hours forward at 01:00 UTC; 25 October 2026: two hours back.
        ("0 1,2 * * *", "Antarctica/Troll", "2026-03-28 12:00", "2026-03-29 12:00", ["29 01:00"]),
        ("30 1-3 * * *", "Antarctica/Troll", "2026-10-24 12:00", "2026-10-25 12:00",
         ["24 23:30", "25 00:30", "25 03:30"]),
        # Kathmandu, 1 January 1986: a quarter of an hour forward at midnight (18:30 UTC).
        ("5,10,20 0 * * *", "Asia/Kathmandu", "1985-12-31 12:00", "1986-01-01 12:00",
         ["31 18:30", "31 18:35"]),
        # Monrovia, 7 January 1972: from 00:00:00 to 00:44:30, at 00:44:30 UTC.
        ("30 0 * * *", "Africa/Monrovia", "1972-01-05 12:00", "1972-01-08 12:00",
         ["06 01:14", "07 00:44", "08 00:30"]),
        # Samoa had no 30 December 2011: at 10:00 UTC the day before became the day after.
        ("0 12 * * *", "Pacific/Apia", "2011-12-28 12:00", "2011-12-31 12:00",
         ["28 22:00", "29 22:00", "30 10:00", "30 22:00"]),
        ("0 0 * * *", "Pacific/Apia", "2011-12-28 12:00", "2011-12-31 12:00",
         ["29 10:00", "30 10:00", "31 10:00"]),
        ("0 9 * * FRI", "Pacific/Apia", "2011-12-23 12:00", "2012-01-06 12:00",
         ["23 19:00", "30 10:00", "05 19:00"]),
        ("0 * 30 12 *", "Pacific/Apia", "2011-12-01 00:00", "2012-12-01 00:00", []),
        # Kwajalein, 30 September 1969: 23 hours back at 13:00 UTC.
        ("30 3 * * *", "Pacific/Kwajalein", "1969-09-29 12:00", "1969-10-02 12:00",
         ["29 16:30", "01 15:30"]),
        # With seconds.
        ("*/20 */30 2 * * *", "Europe/Berlin", "2026-03-29 00:30", "2026-03-29 12:00",
         ["29 01:00"]),
        ("30 59 * * * *", "America/St_Johns", "2006-10-29 02:00", "2006-10-29 04:00",
         ["29 02:29", "29 03:29"]),
        # Without a change of the clock.
        ("2-2/2 * * * *", "UTC", "2026-01-01 00:00", "2026-01-01 03:00",
         ["01 00:02", "01 01:02", "01 02:02"]),
        ("0 8,9-09/5 * jan-1/2 mon-1/3", "UTC", "2026-01-01 00:00", "2026-03-01 00:00",
         [f"{day:02} {hour}:00" for day in (5, 12, 19, 26) for hour in ("08", "09")]),
        ("57/2 0 1 1 *", "UTC", "2026-01-01 00:00", "2027-01-01 00:00",
         ["01 00:57", "01 00:59"]),
        ("0 0 * 1 6-7/1", "UTC", "2026-01-01 00:00", "2026-01-12 00:00",
         ["03 00:00", "04 00:00", "10 00:00", "11 00:00"]),
        ("0 */12 29 2 *", "Europe/Berlin", "2026-01-01 00:00", "2028-02-29 12:00",
         ["28 23:00", "29 11:00"]),
        ("0 * 29 2 *", "Europe/Berlin", "2024-02-29 22:30", "2028-02-29 01:30",
         ["28 23:00", "29 00:00", "29 01:00"]),
        ("0 0 30 2 MON", "UTC", "2026-02-15 00:00", "2026-03-01 00:00", ["16 00:00", "23 00:00"]),
        ("0 0 29 2 *", "UTC", "2026-01-01 00:00", "2032-12-31 00:00", ["29 00:00", "29 00:00"]),
        ("*/20 * * * * *", "UTC", "2026-01-01 00:00", "2026-01-01 00:01", ["01 00:00"] * 2
         + ["01 00:01"]),
        ("0 9 * * MON-FRI", "Asia/Kolkata", "2026-11-20 12:00", "2026-11-23 12:00", ["23 03:30"]),
        ("0 0 L * *", "UTC", "2026-01-31 00:00", "2026-03-01 00:00", ["28 00:00"]),
    ],
)  # fmt: skip
def test_ticks(line: str, zone: str, after: str, until: str, expected: list[str]) -> None:
    """Local times that are skipped tick once right after the gap, repeated ones once."""
    assert ticks(cron(line, zone), after, until) == expected


LINES = [
    "* * * * *", "*/7 * * * *", "30 2 * * *", "*/20 1-3 * * *", "0 0 * * *", "15 */5 * * SUN",
    "0 3 1 * *", "59 23 * * MON#1", "0,30 0,23 * * *",
]  # fmt: skip
ZONES = ["UTC", "Europe/Berlin", "America/Sao_Paulo", "Australia/Lord_Howe", "Asia/Kathmandu"]
MOMENTS = st.integers(0, 10 * 365 * 86_400).map(
    lambda seconds: datetime(2017, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
)


@settings(max_examples=150)
@given(
    line=st.sampled_from(LINES),
    zone=st.sampled_from(ZONES),
    start=MOMENTS,
    later=st.timedeltas(timedelta(0), 6 * DAY),
    most=st.integers(1, 40),
)
def test_looking_back_finds_what_going_forward_finds(
    line: str, zone: str, start: datetime, later: timedelta, most: int
) -> None:
    """Whatever the number of ticks that passed, and over every change of the clock."""
    schedule = cron(line, zone)
    first = next_tick(schedule, start)
    assert first is not None
    now, forward = first + later, [first]
    while (tick := next_tick(schedule, forward[-1])) is not None and tick <= now:
        forward.append(tick)
    assert ticks_until(schedule, first, now, most) == forward[-most:]


def test_intervals_do_not_drift() -> None:
    """The n-th tick is n intervals after the first, to the microsecond, however late one looks."""
    schedule, first = every(seconds=0.1), utc("2026-01-01 00:00")
    assert next_tick(schedule, first) == first + timedelta(seconds=0.1)
    now = first + timedelta(seconds=1_000_000, milliseconds=50)
    assert ticks_until(schedule, first, now, 2) == [
        first + timedelta(seconds=999_999.9),
        first + timedelta(seconds=1_000_000),
    ]
    assert ticks_until(schedule, first, first, 5) == [first]


def test_years_of_seconds() -> None:
    """Looking back over a year of ticks a second takes no longer than over an hour."""
    first, now = utc("2025-01-01 00:00"), utc("2026-01-01 00:00")
    assert ticks_until(cron("* * * * * *"), first, now, 1) == [now]
    assert ticks_until(cron("0 0 1 1 *"), first, now, 3) == [first, now]


def test_a_planned_tick_stays_one() -> None:
    """The zone's rules may have changed since it was planned."""
    first = utc("2026-01-01 00:00:30")
    assert ticks_until(cron("* * * * *"), first, first, 9) == [first]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("0 0 30 2 *", "Bad day-of-month"),
        ("* * */20 * 1L", "never ticks"),
        ("61 * * * *", "Bad minute"),
        ("* * * *", "Wrong number of fields"),
        ("", "Wrong number of fields"),
        ("*/0 * * * *", "Bad minute"),
        ("5-1 * * * *", "Bad minute"),
        ("* * * * MON#6", "Bad day-of-week"),
        ("1-2-2/3 * * * *", "Bad minute"),
        ("2-2/0 * * * *", "Bad minute"),
        ("99-99/3 * * * *", "Bad minute"),
        ("0" * 5_000 + " * * * *", "no cron line"),
    ],
)
def test_impossible_lines(line: str, message: str) -> None:
    """The error names the line and the field."""
    with pytest.raises(InvalidSchedule, match=message) as caught:
        check_times(cron(line))
    assert repr(line) in str(caught.value)


@pytest.mark.parametrize("name", ["Mars/Olympus", "", "../UTC", "America", "Europe/berlín", "\0"])
def test_unknown_zones(name: str) -> None:
    """Whatever zoneinfo makes of them, the error says what to give instead."""
    with pytest.raises(InvalidSchedule, match=r"no time zone.*give one such as"):
        check_times(cron("* * * * *", name))


def test_possible_ones() -> None:
    """Lines in lower case, with names, steps and six fields."""
    for line in ("0 9 * jan-mar mon,fri", "*/15 0 9-17/2 * * *", "0 0 LW * *", "0 0 29 2 MON"):
        check_times(cron(line, "America/Sao_Paulo"))


@pytest.mark.parametrize(
    ("alias", "line"),
    [
        ("@hourly", "0 * * * *"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@weekly", "0 0 * * SUN"),
        ("@monthly", "0 0 1 * *"),
        ("@yearly", "0 0 1 1 *"),
        (" @Annually ", "0 0 1 1 *"),
    ],
)
def test_aliases(alias: str, line: str) -> None:
    """Each stands for a line, in local time."""
    zone, moment = "America/Sao_Paulo", utc("2026-11-24 20:00")
    for _ in range(3):
        found = next_tick(cron(alias, zone), moment)
        assert found is not None
        assert found == next_tick(cron(line, zone), moment)
        moment = found
    check_times(cron(alias))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("@reboot", "'@reboot' is no time: .* enqueue the job where your program starts"),
        ("@REBOOT", "'@reboot' is no time"),
        (
            "@fortnightly",
            "'@fortnightly' is no cron line; of those words there are @hourly, ",
        ),
        ("@", "of those words"),
    ],
)
def test_aliases_that_are_none(line: str, said: str) -> None:
    """Are refused with what to write."""
    with pytest.raises(InvalidSchedule, match=said):
        check_times(cron(line))
