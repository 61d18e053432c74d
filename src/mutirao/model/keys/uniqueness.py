"""Uniqueness: what a key guarantees, and what happens to a job whose key another one holds.

`judge` is the rule itself, a pure function. `sql/rules` calls it; PostgreSQL does the same in a
function of its own, which other languages call, too.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from math import inf
from typing import Literal, NamedTuple, Self

from mutirao.errors import DuplicateJob
from mutirao.model.keys.supersede import Supersede

# The `run_at` of a job that waits for another one to end: it is never due in any lane.
PARKED = datetime(9999, 5, 31, tzinfo=UTC)
FOREVER = inf  # as `unique_for`: until the finished job is pruned
REPLACED = "Replaced"  # the error_type of a job that another one replaced

How = Literal[
    "inserted", "replaced", "rerun", "found", "outdated", "follows", "merged", "superseded",
    "repeated",
]  # fmt: skip
NOTHING_WRITTEN: tuple[How, ...] = ("found", "outdated", "repeated")
KeyName = tuple[str, str, str, str]  # scope, task, queue, key


class OnConflict(StrEnum):
    """What happens to a job whose key another job holds."""

    KEEP = "keep"  # the other job stays; nothing is written
    REPLACE = "replace"  # it replaces one that waits, and is due at its own time
    RERUN = "rerun"  # as `replace`, but it is due no later than the replaced one
    ERROR = "error"  # it is refused

    @property
    def steady(self) -> bool:
        """True if the job that holds the key is left unchanged."""
        return self in (OnConflict.KEEP, OnConflict.ERROR)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unique:
    """The uniqueness options of a job.

    Parameters:
        on_conflict: what happens if another job holds the key.
        scope: a name that jobs with shared keys use; None: the jobs of the task in the queue.
        unique_for: seconds for which the job holds the key after it has finished; `FOREVER`: until
            it is pruned.
        debounce_limit: the maximum number of seconds by which replacing may delay the first
            request.
        version: the number of the update that the job is about, if updates have numbers: one with a
            smaller number than the last one of the key is outdated.
        supersede: the rule by which a newer job makes this one redundant, instead of `on_conflict`;
            jobs with such a rule share no keys with other jobs.
    """

    on_conflict: OnConflict = OnConflict.KEEP
    scope: str | None = None
    unique_for: float | None = None
    debounce_limit: float | None = None
    version: float | None = None
    supersede: Supersede | None = None

    def name(self, task: str, queue: str, key: str) -> KeyName:
        """Return the unique name: the key within the scope, or within task and queue."""
        return ("", task, queue, key) if self.scope is None else (self.scope, "", "", key)


class Placed(int):
    """The id of the job that holds a unique key after an enqueue, and `how` it came to hold it."""

    how: How

    def __new__(cls, id: int, how: How) -> Self:
        """Create an id that is an ordinary int with `how` attached."""
        placed = super().__new__(cls, id)
        placed.how = how
        return placed

    @property
    def written(self) -> bool:
        """True if a job was written."""
        return self.how not in NOTHING_WRITTEN


class Holder(NamedTuple):
    """The job that holds a key, or held it last.

    `since` is when the first of the jobs that it replaced was enqueued, `due` its own time even
    while it waits for another job, `behind` whether an earlier job runs or `runs` itself, `until`
    the end of its `unique_for` once it has finished. `version` is that of the key's newest job,
    also if that was cancelled and an earlier one runs.
    """

    job: int
    since: datetime
    live: bool
    runs: bool
    behind: bool
    due: datetime | None
    until: datetime | None
    version: float | None = None


class Verdict(NamedTuple):
    """The decision about a job: `how` is None if it is refused. `since` is stored with the key."""

    how: How | None
    due: datetime
    since: datetime


def judge(unique: Unique, due: datetime, holder: Holder | None, now: datetime) -> Verdict:
    """Decide about a job that is due at `due`, where `holder` holds its key or held it last."""
    since = now
    how: How = "inserted"
    if holder is not None and unique.on_conflict.steady:
        if holder.live or (holder.until is not None and now < holder.until):
            kept = unique.on_conflict is OnConflict.KEEP
            return Verdict("found" if kept else None, due, holder.since)
    elif holder is not None and _is_older(unique.version, holder.version):
        return Verdict("outdated", due, holder.since)
    elif holder is not None and holder.live:
        how = "rerun" if holder.runs or holder.behind else "replaced"
        if not holder.runs:
            since = holder.since
            if unique.on_conflict is OnConflict.RERUN and holder.due is not None:
                due = min(due, holder.due)
    if unique.debounce_limit is not None:
        due = min(due, since + timedelta(seconds=unique.debounce_limit))
    return Verdict(how, due, since)


def _is_older(version: float | None, than: float | None) -> bool:
    return version is not None and than is not None and version < than


def duplicate(task: str, key: str | None, standing: int) -> DuplicateJob:
    """Return the error for a refused job; it names the job that holds the key."""
    return DuplicateJob(
        f"job {standing} has the key {key!r} already, and this one of {task!r} was asked with"
        ' on_conflict="error"; leave it out, or choose keep, replace or rerun',
        standing,
    )
