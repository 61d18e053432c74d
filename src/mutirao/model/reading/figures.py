"""Figures for pages; each shows if it is only a lower bound, because counting is bounded.

A cursor is the id of a job as text; clients need not understand it.
"""

import re
from dataclasses import dataclass
from datetime import datetime

from mutirao.errors import InvalidFilter
from mutirao.model.filters.qualifiers import quoted
from mutirao.model.jobs.hours import FAILED_OUTCOME_NAMES
from mutirao.model.jobs.records import MAX_INTEGER, JobRecord
from mutirao.model.jobs.states import JobState

MAX_PAGE = 1_000  # jobs
_CURSOR = re.compile(r"j[0-9a-f]{1,16}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Some jobs, newest first.

    `next`: the cursor of the next page; None: there is none. `searched_all`: False if the search
    stopped after very many jobs; it continues at `next`.
    """

    jobs: tuple[JobRecord, ...]
    next: str | None
    searched_all: bool


@dataclass(frozen=True, slots=True)
class Counted:
    """A number of jobs; `at_least`: there may be more, because counting stopped."""

    jobs: int
    at_least: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueFigure:
    """How many jobs of a queue are in a state; `counted_at`: None for now."""

    queue: str
    state: JobState
    jobs: int
    at_least: bool = False
    oldest: datetime | None = None  # since when the oldest of them is waiting, if that is known
    counted_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HourFigure:
    """The attempts of a task in a queue that ended in an hour with an outcome; lengths in seconds.

    Percentiles are right to 5 %.
    """

    hour: datetime
    queue: str
    task: str
    outcome: str
    attempts: int
    mean: float
    p50: float
    p95: float
    p99: float

    @property
    def failed(self) -> bool:
        """True if these attempts failed."""
        return self.outcome in FAILED_OUTCOME_NAMES


@dataclass(frozen=True, slots=True, kw_only=True)
class MinuteFigure:
    """The attempts that ended in a minute with an outcome; `at_least`: older ones were not read."""

    minute: datetime
    outcome: str
    attempts: int
    at_least: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitFigure:
    """How long the newest first attempts of a queue waited for their start; seconds."""

    queue: str
    jobs: int
    p50: float
    p95: float
    longest: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorFigure:
    """An error, by its class and the first line of its text, with the number of occurrences."""

    task: str
    error_type: str | None
    message: str | None
    jobs: int
    attempts: int
    first_at: datetime
    last_at: datetime

    @property
    def filter(self) -> str:
        """The text of the filter that finds the jobs whose last error it is."""
        terms = [f"task:{quoted(self.task)}"]
        terms += [f"error:{quoted(self.error_type)}"] if self.error_type else []
        terms += [f"message:{quoted(self.message)}"] if self.message else []
        return " ".join(terms)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningJob:
    """A running job, and since when it runs."""

    id: int
    task: str
    queue: str
    worker: int
    attempt: int
    started_at: datetime | None
    cancelling: bool


def cursor_of(id: int) -> str:
    """Return the cursor of the jobs older than this one."""
    return f"j{id:x}"


def read_cursor(text: object) -> int:
    """Return the id that a cursor holds; raise InvalidFilter if it is none."""
    if not isinstance(text, str) or _CURSOR.fullmatch(text) is None:
        raise InvalidFilter(f"{text!r:.60} is no cursor of a page; begin with the first page")
    return min(int(text[1:], 16), MAX_INTEGER)


def checked_size(size: object) -> int:
    """Return the number of jobs on a page; raise InvalidFilter if it cannot be one."""
    if isinstance(size, bool) or not isinstance(size, int) or not 1 <= size <= MAX_PAGE:
        raise InvalidFilter(f"the page's size is {size!r}; give a number from 1 to {MAX_PAGE:,}")
    return size


def share(sorted_seconds: list[float], part: float) -> float:
    """Return the value below which this part of sorted values is; 0 if there are none."""
    last = len(sorted_seconds) - 1
    return sorted_seconds[min(int(len(sorted_seconds) * part), last)] if last >= 0 else 0.0
