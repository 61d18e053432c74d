"""What a MemoryStore remembers: the three tables of jobs, the workers and the duties."""

import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from mutirao.errors import InvalidJob
from mutirao.fair import fair_lane, turn_of
from mutirao.job import (
    MAX_KEY,
    MAX_PRIORITY,
    MAX_QUEUE_NAME,
    MAX_TASK_NAME,
    MIN_PRIORITY,
    NewJob,
    OutcomeKind,
)
from mutirao.outcome import Outcome
from mutirao.records import AttemptRecord, Progress
from mutirao.schedule import ScheduleState
from mutirao.states import Fault
from mutirao.testing.memory.limits import Limits
from mutirao.unique import PARKED, KeyName

if TYPE_CHECKING:
    from mutirao.testing.memory.graphs import Graph


@dataclass(frozen=True, slots=True)
class Asked:
    """What was asked, with the moments that were decided when it was written."""

    id: int
    new: NewJob
    args: dict[str, Any]
    run_at: datetime
    enqueued_at: datetime


@dataclass(slots=True)
class Live:
    """What is pending. Waiting while `worker` is None."""

    id: int
    task: str
    queue: str
    priority: int
    run_at: datetime
    attempt: int = 0
    run: int = 0
    worker: int | None = None
    claimed_at: datetime | None = None
    cancel: bool = False
    lost: int = 0
    cut_off: int = 0
    turn: str = ""  # in a fair lane, whose name `queue` is then

    @property
    def place(self) -> tuple[datetime, int]:
        """The order inside a lane."""
        return self.run_at, self.id

    def held(self, run: int) -> bool:
        """Whether `run` is the current one, and still being run."""
        return self.worker is not None and self.run == run

    def wait(self, *, run_at: datetime | None = None, counted: bool = True) -> None:
        """Make the job wait again, in its old place unless `run_at` gives it another one."""
        self.worker = self.claimed_at = None
        self.attempt -= not counted
        self.run_at = run_at or self.run_at

    def count(self, outcome: Outcome) -> None:
        """Note what a job that waits again went through."""
        if outcome.kind is not OutcomeKind.RELEASED:
            self.lost = self.cut_off = 0
        self.lost += outcome.fault is Fault.WORKER
        self.cut_off += outcome.fault is Fault.CONNECTION


@dataclass(slots=True)
class Worker:
    """A registered worker."""

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
    listening: bool = True
    stuck: int = 0
    late: float = 0.0


@dataclass(frozen=True, slots=True)
class Duty:
    """Who holds a duty, since when, and until when."""

    worker: int
    taken_at: datetime
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class Key:
    """The job that holds a key, or held it last, and the running one that it waits for."""

    job: int
    after: int | None
    since: datetime
    unique_for: float | None


@dataclass(slots=True)
class Tables:
    """All of it. Ids only grow, so that nothing old can be taken for something new."""

    asked: dict[int, Asked] = field(default_factory=dict)
    live: dict[int, Live] = field(default_factory=dict)
    attempts: dict[int, list[AttemptRecord]] = field(default_factory=dict)
    workers: dict[int, Worker] = field(default_factory=dict)
    duties: dict[str, Duty] = field(default_factory=dict)
    keys: dict[KeyName, Key] = field(default_factory=dict)
    series: dict[KeyName, int] = field(default_factory=dict)  # the last job of each
    turns: dict[int, int] = field(default_factory=dict)  # who waits for whom, that one being live
    schedules: dict[str, ScheduleState] = field(default_factory=dict)
    ticks: set[tuple[str, datetime]] = field(default_factory=set)
    graphs: "dict[int, Graph]" = field(default_factory=dict)
    results: dict[int, tuple[str, datetime | None]] = field(default_factory=dict)
    progress: dict[int, Progress] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    fair: dict[str, str] = field(default_factory=dict)  # by task, the argument
    served: dict[str, str] = field(default_factory=dict)  # by fair lane, whose turn was last
    job_ids: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    worker_ids: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def write(self, new: NewJob, now: datetime, id: int | None = None) -> int:
        """Add a job that was checked by `arguments_of`; return its id, a new one if not given."""
        id = id or next(self.job_ids)
        run_at = new.run_at or now + timedelta(seconds=new.delay or 0)
        frozen = replace(new, metadata=dict(new.metadata))
        self.asked[id] = Asked(id, frozen, arguments_of(new), run_at, now)
        self.live[id] = Live(id, new.task, new.queue, new.priority, run_at)
        self._line_up(self.live[id], new)
        self.attempts[id] = []
        return id

    def _line_up(self, job: Live, new: NewJob) -> None:
        if new.fair_by is not None:
            self.fair.setdefault(new.task, new.fair_by)
        if new.task in self.fair:
            job.queue, job.turn = fair_lane(new.queue), turn_of(new.args, self.fair[new.task])

    def finish(self, job: Live, attempt: AttemptRecord) -> None:
        """Take a job out of the live ones, with its last attempt; let go what waited for it."""
        self.attempts[job.id].append(attempt)
        del self.live[job.id]
        for key in self.keys.values():
            follower = self.live.get(key.job)
            if key.after == job.id and follower is not None and follower.run_at == PARKED:
                follower.run_at = self.asked[key.job].run_at
        self._move_up(job.id)

    def _move_up(self, ended: int) -> None:
        """Let what waited for a job wait for the one before it, or go."""
        before = self.turns.get(ended)
        for id in [id for id, after in self.turns.items() if after == ended]:
            if before is not None:
                self.turns[id] = before
                continue
            del self.turns[id]
            if id in self.live:
                self.live[id].run_at = self.asked[id].run_at

    def ending(self, id: int) -> AttemptRecord | None:
        """Return the attempt a job ended with; None while it is live."""
        return None if id in self.live else self.attempts[id][-1]

    def held_by(self, worker: int) -> list[Live]:
        """Return the jobs a worker is running, in the order of their ids."""
        return [job for job in self.live.values() if job.worker == worker]


def arguments_of(new: NewJob) -> dict[str, Any]:
    """Return the arguments of a job by name; raise InvalidJob for what tables would not take."""
    limits = [
        (1 <= len(new.task) <= MAX_TASK_NAME, "task"),
        (1 <= len(new.queue) <= MAX_QUEUE_NAME, "queue"),
        (MIN_PRIORITY <= new.priority <= MAX_PRIORITY, "priority"),
        (new.key is None or 1 <= len(new.key) <= MAX_KEY, "key"),
        (new.max_attempts is None or new.max_attempts >= 1, "max_attempts"),
        (new.timeout is None or new.timeout > 0, "timeout"),
        (new.run_at is None or new.run_at.tzinfo is not None, "run_at"),
    ]
    wrong = [f"{name}={getattr(new, name)!r}" for fits, name in limits if not fits]
    if wrong:
        raise InvalidJob(f"The job has {', '.join(wrong)}; see the limits in mutirao.job.")
    try:
        args = json.loads(new.args)
    except ValueError as error:
        raise InvalidJob(f"NewJob.args is not JSON ({error}); give an object as text.") from error
    if not isinstance(args, dict):
        raise InvalidJob(f"NewJob.args is {new.args[:80]!r}; give a JSON object as text.")
    return args


def attempt_of(
    job: Live,
    outcome: OutcomeKind,
    now: datetime,
    *,
    started_at: datetime | None = None,
    finished_at: datetime | None = None,
    error_type: str | None = None,
    error: str | None = None,
) -> AttemptRecord:
    """Return the row of history for the way a live job's current run ended."""
    return AttemptRecord(
        attempt=job.attempt,
        run=job.run,
        worker=job.worker,
        outcome=outcome,
        started_at=started_at or job.claimed_at or now,
        finished_at=finished_at or now,
        error_type=error_type,
        error=error,
    )
