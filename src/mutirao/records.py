"""Jobs as people, dashboards and tests see them, and how they are picked out.

`JobRecord` is what was asked, where it stands and what happened; nothing here acts.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple

from mutirao.errors import InvalidFilter
from mutirao.job import JobState, OutcomeKind


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRecord:
    """One row of history: one execution of a job."""

    attempt: int
    run: int
    worker: int | None
    outcome: OutcomeKind
    started_at: datetime
    finished_at: datetime
    error_type: str | None
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord:
    """A job as people see it: what was asked, where it stands, and all its attempts if wanted."""

    id: int
    task: str
    args: dict[str, Any]
    queue: str
    priority: int
    state: JobState
    attempt: int
    max_attempts: int | None
    timeout: float | None
    run_at: datetime
    enqueued_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    worker: int | None
    error_type: str | None
    error: str | None
    key: str | None
    tags: tuple[str, ...]
    metadata: Mapping[str, Any]
    traceparent: str | None
    redrive_of: int | None
    on_dead_of: int | None
    graph: int | None = None
    stage: str | None = None  # of the graph
    progress: float | None = None  # as the handler told last
    progress_of: float | None = None
    progress_note: str | None = None
    attempts: tuple[AttemptRecord, ...] = ()


@dataclass(frozen=True, slots=True)
class DeadJob:
    """What an `on_dead` handler receives: the job that died, and why."""

    id: int
    task: str
    queue: str
    args: dict[str, Any]
    attempts: int
    error_type: str | None
    error: str | None


class Progress(NamedTuple):
    """How far an attempt has come, as its handler told."""

    job: int
    run: int
    done: float
    of: float | None
    note: str | None


class Ending(NamedTuple):
    """How a job stands, for whoever waits for its end. `result` is JSON, where one was kept."""

    id: int
    task: str
    state: JobState | None  # None while it is live
    result: str | None
    error_type: str | None
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Which jobs a listing, a cancel or a redrive is about; what is left None does not narrow."""

    ids: tuple[int, ...] | None = None
    state: JobState | None = None
    queue: str | None = None
    task: str | None = None
    tag: str | None = None
    error_type: str | None = None
    graph: int | None = None
    fingerprint: str | None = None  # of the arguments, where the task is findable
    before: datetime | None = None  # enqueued before
    after: datetime | None = None  # enqueued at or after
    limit: int | None = 100

    def __post_init__(self) -> None:
        object.__setattr__(self, "ids", _ids(self.ids))
        object.__setattr__(self, "state", _state(self.state))
        _check_moment("before", self.before)
        _check_moment("after", self.after)

    @property
    def narrows(self) -> bool:
        """Whether it says anything about which jobs are meant, but how many."""
        return any(
            getattr(self, each.name) is not None for each in fields(self) if each.name != "limit"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueCount:
    """How many jobs of a queue are in a state, and since when the oldest has been."""

    queue: str
    state: JobState
    jobs: int
    oldest_age: float | None  # seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerRecord:
    """A registered worker and how many jobs it holds."""

    id: int
    name: str
    host: str
    pid: int
    queues: tuple[str, ...] | None
    concurrency: int
    version: str
    started_at: datetime
    beat_at: datetime
    expires_at: datetime
    alive: bool
    listening: bool
    stuck: int
    late: float  # seconds that a beat came late lately, at most
    running: int


class GraphState(StrEnum):
    """How a graph stands."""

    RUNNING = "running"  # or about to
    STOPPED = "stopped"  # what is left waits for a step that died or was cancelled
    SUCCEEDED = "succeeded"
    DEAD = "dead"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRecord:
    """A step as people see it."""

    job: int
    task: str
    stage: str
    state: JobState
    after: tuple[int, ...]  # the jobs that it waits for, or waited for


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphRecord:
    """A graph as people see it: its state, how many jobs are in which, and where it stands.

    `stage` is the earliest that is not over; None once all have succeeded. Its `id` is that of its
    first job.
    """

    id: int
    name: str | None
    state: GraphState
    stage: str | None
    jobs: int
    blocked: int
    waiting: int
    running: int
    succeeded: int
    dead: int
    cancelled: int
    created_at: datetime
    steps: tuple[StepRecord, ...] = ()


def _ids(ids: Iterable[object] | None) -> tuple[int, ...] | None:
    if ids is None:
        return None
    chosen = []
    for id in ids:
        if not isinstance(id, int):
            raise InvalidFilter(f"{id!r} is no job's id; give numbers, such as handle.id")
        chosen.append(id)
    return tuple(chosen)


def _state(state: str | None) -> JobState | None:
    try:
        return None if state is None else JobState(state)
    except ValueError:
        known = ", ".join(JobState)
        raise InvalidFilter(f"no job is ever {state!r}; the states are {known}") from None


def _check_moment(name: str, moment: object) -> None:
    if moment is not None and (not isinstance(moment, datetime) or moment.tzinfo is None):
        raise InvalidFilter(f"{name} is {moment!r}; give a datetime with a time zone")
