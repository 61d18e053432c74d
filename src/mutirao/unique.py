"""Uniqueness: what a key promises, and what becomes of a job whose key another one has.

`judge` is the rule itself, a pure function. SQLite and the store in memory ask it; PostgreSQL says
the same in a function of its own, which other languages call, too.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Literal, NamedTuple, Self

from mutirao.errors import DuplicateJob
from mutirao.supersede import Supersede

# Where a job waits that may not run before another one has ended; in no lane it is ever due.
PARKED = datetime(9999, 5, 31, tzinfo=UTC)
LONGEST_WINDOW = 7 * 86_400  # seconds; finished jobs are kept for so long unless said otherwise
REPLACED = "Replaced"  # the error_type of a job that another one replaced

How = Literal["inserted", "replaced", "rerun", "found", "follows", "merged", "superseded"]
KeyName = tuple[str, str, str, str]  # scope, task, queue, key


class OnConflict(StrEnum):
    """What becomes of a job whose key another one has."""

    KEEP = "keep"  # the one that stands stays; nothing is written
    REPLACE = "replace"  # it takes the place of one that waits, at its own time
    RERUN = "rerun"  # likewise, but not later than that one would have run
    ERROR = "error"  # refused

    @property
    def steady(self) -> bool:
        """Whether the job that stands is left alone."""
        return self in (OnConflict.KEEP, OnConflict.ERROR)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unique:
    """What is asked of a job's key.

    Parameters:
        on_conflict: what happens if the key is taken.
        scope: the name of those who share keys; None: the jobs of the task in the queue.
        unique_for: seconds that the job holds the key after it has finished.
        debounce_limit: the most seconds by which replacing may put off what was asked first.
        supersede: what a newer job makes redundant, instead of `on_conflict`; keys of jobs with
            such a rule are apart from all others.
    """

    on_conflict: OnConflict = OnConflict.KEEP
    scope: str | None = None
    unique_for: float | None = None
    debounce_limit: float | None = None
    supersede: Supersede | None = None

    def name(self, task: str, queue: str, key: str) -> KeyName:
        """Return what is unique: the key within the scope, or within task and queue."""
        return ("", task, queue, key) if self.scope is None else (self.scope, "", "", key)


class Placed(int):
    """The id of the job that stands for one with a unique key, and how it came to."""

    how: How

    def __new__(cls, id: int, how: How) -> Self:
        """Make an id like any other, that also knows this."""
        placed = super().__new__(cls, id)
        placed.how = how
        return placed


class Holder(NamedTuple):
    """The job that has a key, or had it last.

    `since` is when the first of those was enqueued that it replaced, `due` its own time wherever
    it waits, `behind` whether a job before it runs or `runs` itself, `until` the end of its window
    once it has finished.
    """

    job: int
    since: datetime
    live: bool
    runs: bool
    behind: bool
    due: datetime | None
    until: datetime | None


class Verdict(NamedTuple):
    """What becomes of a job: `how` is None if it is refused. `since` goes with the key."""

    how: How | None
    due: datetime
    since: datetime


def judge(unique: Unique, due: datetime, holder: Holder | None, now: datetime) -> Verdict:
    """Decide about a job that is due at `due`, where `holder` has its key or had it last."""
    since = now
    how: How = "inserted"
    if holder is not None and unique.on_conflict.steady:
        if holder.live or (holder.until is not None and now < holder.until):
            kept = unique.on_conflict is OnConflict.KEEP
            return Verdict("found" if kept else None, due, holder.since)
    elif holder is not None and holder.live:
        how = "rerun" if holder.runs or holder.behind else "replaced"
        if not holder.runs:
            since = holder.since
            if unique.on_conflict is OnConflict.RERUN and holder.due is not None:
                due = min(due, holder.due)
    if unique.debounce_limit is not None:
        due = min(due, since + timedelta(seconds=unique.debounce_limit))
    return Verdict(how, due, since)


def duplicate(task: str, key: str | None, standing: int) -> DuplicateJob:
    """Return the error for a refused job: it names the one that stands."""
    return DuplicateJob(
        f"job {standing} has the key {key!r} already, and this one of {task!r} was asked with"
        ' on_conflict="error"; leave it out, or choose keep, replace or rerun',
        standing,
    )
