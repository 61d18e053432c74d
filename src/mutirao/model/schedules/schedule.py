"""The frozen values of schedules.

`Schedule` is the definition, `ScheduleState` the current state, `ScheduleFacts` what the store
knows when the schedule is about to change, `Amendment` the change, `ScheduleRecord` what people
see. `cron` computes the ticks, `schedule_rules` decides what they do.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, NamedTuple, TypedDict

from mutirao.errors import InvalidSchedule
from mutirao.model.jobs.job import NewJob
from mutirao.model.jobs.retry import FIRST_YEAR, LAST_YEAR, MAX_WAIT

MAX_SCHEDULE_NAME = 200
MAX_REASON = 1_000
MAX_CATCH_UP = 1_000  # jobs of one schedule, enqueued in one transaction
MAX_DUE_NAMES = 100  # of schedules, in an agenda
TICKS_KEPT_PER_SCHEDULE = 100
ZERO_DURATION = timedelta(0)
MIN_INTERVAL, MAX_INTERVAL = timedelta(milliseconds=1), timedelta(seconds=MAX_WAIT)


class CatchUp(StrEnum):
    """What happens to ticks that were missed because no worker was running."""

    NONE = "none"
    LAST = "last"
    ALL = "all"


class Overlap(StrEnum):
    """What a tick does while the previous job is live."""

    ALLOW = "allow"
    SKIP = "skip"
    AFTER = "after"  # that cannot happen: the next tick counts from the job's end


class ScheduleOrigin(StrEnum):
    """The origin of a schedule."""

    CODE = "code"  # by `@app.schedule`
    CALL = "call"  # at run time, by `app.schedules.put` or the command line


class Terms(TypedDict, total=False):
    """The timing options, as callers give them; `Schedule` documents each."""

    every: timedelta | float | None
    timezone: str
    catch_up: str
    catch_up_limit: int
    overlap: str
    jitter: timedelta | float
    until: datetime | None
    max_runs: int | None
    pause_after: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A definition of jobs and their times. Exactly one of `cron` and `every` is given.

    Parameters:
        name: the name, which is the key.
        job: the job that each tick enqueues; it has no `run_at` and no `delay`.
        cron: five fields, or six with the seconds first, in local time of `timezone`.
        every: the time between two ticks; the first is one interval after the creation.
        timezone: the time zone of the cron line, such as America/Sao_Paulo.
        catch_up: what happens to ticks that were missed because no worker was running.
        catch_up_limit: with `all`, the maximum number of missed ticks that still make jobs: the
            last ones.
        overlap: what a tick does while the previous job is live.
        jitter: each job is due at a random time up to `jitter` after its tick.
        until: there is no tick after this aware datetime.
        max_runs: there are no ticks after this number of jobs.
        pause_after: after this number of its jobs died in a row, it is paused instead of ticking.

    Raises:
        InvalidSchedule: an option is out of range, or the options contradict each other.
    """

    name: str
    job: NewJob
    cron: str | None = None
    every: timedelta | None = None
    timezone: str = "UTC"
    catch_up: CatchUp = CatchUp.LAST
    catch_up_limit: int = 100
    overlap: Overlap = Overlap.ALLOW
    jitter: timedelta = ZERO_DURATION
    until: datetime | None = None
    max_runs: int | None = None
    pause_after: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "catch_up", _word(CatchUp, "catch_up", self.catch_up))
        object.__setattr__(self, "overlap", _word(Overlap, "overlap", self.overlap))
        _check_timing(self)
        _check_bounds(self)
        object.__setattr__(self, "until", self.until and self.until.astimezone(UTC))
        if self.catch_up is CatchUp.ALL and self.overlap is not Overlap.ALLOW:
            raise InvalidSchedule(
                "catch_up='all' makes several jobs at once, which"
                f" overlap='{self.overlap}' forbids; give catch_up='last', or overlap='allow'"
            )
        if self.job.run_at is not None or self.job.delay is not None:
            raise InvalidSchedule("the job has a run_at or a delay; its ticks say when it runs")

    @property
    def timing(self) -> tuple[str | None, timedelta | None, str]:
        """The options that determine the ticks."""
        return self.cron, self.every, self.timezone


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleState:
    """A schedule and its current state; a row of `mutirao_schedule`.

    `next_at` is the next tick. It is None while an `after` schedule awaits the end of `last_job`
    (`awaiting`), and when there are no more ticks.
    """

    schedule: Schedule
    origin: ScheduleOrigin
    created_at: datetime
    changed_at: datetime
    next_at: datetime | None
    paused: bool = False
    reason: str | None = None  # why it is paused
    forgiven: int | None = None  # deaths of jobs up to this one do not count any more
    awaiting: bool = False
    last_tick: datetime | None = None
    last_job: int | None = None
    runs: int = 0
    skipped: int = 0
    declared: str | None = None  # the fingerprint of the last declaration
    declared_at: datetime | None = None  # when a worker last confirmed it
    declared_by: str | None = None  # that worker


class ScheduleFacts(NamedTuple):
    """What a store knows about a schedule that it has locked.

    `found` is None if there is none, and an error if its row says what no schedule can be.
    """

    found: ScheduleState | InvalidSchedule | None
    now: datetime
    live: bool = False  # whether the last job is live
    ended_at: datetime | None = None  # when the last job finished; None if that is not known
    deaths: int = 0  # of its latest jobs in a row; counted only where `pause_after` is given

    @property
    def state(self) -> ScheduleState | None:
        """The state; None if there is no schedule. Raises InvalidSchedule for such a row."""
        if isinstance(self.found, InvalidSchedule):
            raise self.found
        return self.found


class Ticked(NamedTuple):
    """A job to enqueue: for a tick, or (None) because a run was requested."""

    tick: datetime | None
    job: NewJob


class Amendment(NamedTuple):
    """The change to a schedule, and the jobs enqueued with it. `state` None removes the schedule.

    The store sets `last_job` to the last of the jobs.
    """

    state: ScheduleState | None
    ticks: tuple[Ticked, ...] = ()


class Amended(NamedTuple):
    """What was written: the state, None if there is no such schedule (any more), and the jobs."""

    state: ScheduleState | None
    jobs: tuple[int, ...] = ()


Amend = Callable[[ScheduleFacts], Amendment]


class TickResult(NamedTuple):
    """The result of a due schedule: what was written, or the error because of which nothing was.

    `state` is None if there was an error.
    """

    name: str
    state: ScheduleState | None
    jobs: tuple[int, ...] = ()
    error: Exception | None = None


class Agenda(NamedTuple):
    """The schedules that are due now, and when to check again."""

    due: tuple[str, ...]  # names, MANY_DUE or a few more; the one due longest comes first
    next_in: float | None  # seconds until the next tick; None if there is none
    awaits: bool  # whether a schedule awaits the end of a live job


class ScheduleStatus(StrEnum):
    """The status of a schedule, in one word."""

    ACTIVE = "active"
    AWAITING = "awaiting"  # waits for the end of its last job
    PAUSED = "paused"
    FINISHED = "finished"  # `until` has passed or `max_runs` are reached


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleRecord:
    """A schedule as people see it: a row of the view `mutirao_schedules`."""

    name: str
    task: str
    args: Mapping[str, Any]
    queue: str
    cron: str | None
    every: float | None  # seconds
    timezone: str
    status: ScheduleStatus
    next_at: datetime | None
    last_tick: datetime | None
    last_job: int | None
    last_state: str | None  # of the last job; None once it was pruned
    last_started_at: datetime | None
    last_finished_at: datetime | None
    last_duration: float | None  # seconds
    last_error: str | None
    runs: int
    skipped: int
    catch_up: CatchUp
    overlap: Overlap
    jitter: float  # seconds
    until: datetime | None
    max_runs: int | None
    pause_after: int | None
    reason: str | None  # why it is paused
    origin: ScheduleOrigin
    in_code: bool | None  # of a live worker; None if it was not declared in code
    declared_at: datetime | None
    declared_by: str | None
    created_at: datetime
    changed_at: datetime


def _word(kind: Any, name: str, value: object) -> Any:
    try:
        return kind(value)
    except ValueError:
        raise InvalidSchedule(f"{name} is {value!r}; give one of {', '.join(kind)}") from None


def _check_timing(schedule: Schedule) -> None:
    cron, every = schedule.cron, schedule.every
    if (cron is None) == (every is None):
        found = "neither cron nor every is" if cron is None else "both cron and every are"
        raise InvalidSchedule(f"{found} given for schedule {schedule.name!r}; give one of them")
    if every is not None and not MIN_INTERVAL <= every <= MAX_INTERVAL:
        raise InvalidSchedule(f"every is {every}; give more than no time, and at most 300 years")
    if every is not None and schedule.timezone != "UTC":
        raise InvalidSchedule(
            f"timezone is {schedule.timezone!r}, and `every` counts hours that are all equal; leave"
            " the zone out, or give a cron line, which means local time"
        )
    if cron is not None and not isinstance(cron, str):
        raise InvalidSchedule(f"cron is {cron!r}; give text, such as '*/5 * * * *'")


def _check_bounds(schedule: Schedule) -> None:
    if not ZERO_DURATION <= schedule.jitter <= MAX_INTERVAL:
        raise InvalidSchedule(f"jitter is {schedule.jitter}; give no time, or up to 300 years")
    if schedule.max_runs is not None:
        _check_count("max_runs", schedule.max_runs, 2**31 - 1)
    if schedule.pause_after is not None:
        _check_count("pause_after", schedule.pause_after, TICKS_KEPT_PER_SCHEDULE)
    _check_count("catch_up_limit", schedule.catch_up_limit, MAX_CATCH_UP)
    if schedule.until is not None:
        _check_end(schedule.until)


def _check_end(until: Any) -> None:
    if not isinstance(until, datetime) or until.tzinfo is None:
        raise InvalidSchedule(f"until is {until!r}; give a datetime with a time zone")
    if not FIRST_YEAR <= until.year <= LAST_YEAR:
        raise InvalidSchedule(f"until is {until}; give a year from {FIRST_YEAR} to {LAST_YEAR}")


def _check_count(name: str, value: object, most: int) -> None:
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not (whole and 1 <= value <= most):  # type: ignore[operator]
        raise InvalidSchedule(f"{name} is {value!r}; give a whole number from 1 to {most}")
