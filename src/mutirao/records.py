"""Jobs as people, dashboards and tests see them, and how they are picked out.

`JobRecord` is what was asked, where it stands and what happened; nothing here acts.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

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
    attempts: tuple[AttemptRecord, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Which jobs a listing, a cancel or a redrive is about; what is left None does not narrow."""

    ids: tuple[int, ...] | None = None
    state: JobState | None = None
    queue: str | None = None
    task: str | None = None
    tag: str | None = None
    error_type: str | None = None
    before: datetime | None = None  # enqueued before
    after: datetime | None = None  # enqueued at or after
    limit: int | None = 100


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
    running: int
