"""Explains why a job is not running: a pure function of the facts in the tables.

The reasons come in the order in which they decide: the first one has to be resolved first.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from mutirao.model.jobs.records import WorkerRecord
from mutirao.model.jobs.states import JobState

MOST_AHEAD = 1_000  # jobs before it in its lane that are counted
_BRIEF_AFTER = "it comes after another job, which has not ended as it has to"
_BRIEF_KEY = "another job has the same key, and has not ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class Full:
    """The limit that a job is parked behind; `most` 0: it is paused. `key`: for this value."""

    limit: str
    key: str
    most: int | None  # None: there is no such limit any more
    per: float | None
    running: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The facts of a live job in the tables.

    `held_by`: the job that has its key. `after`: jobs of its graph, or deliveries, that come before
    it. `ahead`: the due jobs before it in its lane, at most `MOST_AHEAD`. `carried`: its doorbell
    is at a broker.
    """

    id: int
    state: JobState
    task: str
    queue: str
    priority: int
    run_at: datetime
    attempt: int
    worker: int | None = None
    cancelling: bool = False
    carried: bool = False
    paused: tuple[str, ...] = ()  # limits that stop all jobs of its queue or task
    full: Full | None = None
    held_by: int | None = None
    after: tuple[int, ...] = ()
    ahead: int = 0


class ReasonKind(StrEnum):
    """Why a job is not running; pages translate it, with the reason's facts."""

    ENDED = "ended"
    RUNNING = "running"
    PAUSED = "paused"
    AFTER = "after"
    KEY = "key"
    LIMIT = "limit"
    BLOCKED = "blocked"
    TIME = "time"
    RETRY = "retry"
    NO_WORKER = "no_worker"
    NO_QUEUE = "no_queue"
    NO_TASK = "no_task"
    CARRIED = "carried"
    AHEAD = "ahead"
    SOON = "soon"


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason: its kind, a sentence in English, and the names in it.

    `brief`: the sentence without facts about other jobs; empty if there are none.
    """

    kind: ReasonKind
    text: str
    facts: dict[str, Any] = field(default_factory=dict)
    brief: str = ""

    @property
    def is_of_others(self) -> bool:
        """Whether it mentions other jobs."""
        return bool(self.brief)


def explain(job: Standing, workers: Sequence[WorkerRecord], now: datetime) -> tuple[Reason, ...]:
    """Return why a live job does not run, the most decisive reason first; or that it runs.

    Parameters:
        job: its facts in the tables.
        workers: all that are registered.
        now: the time of both.
    """
    if job.state is JobState.RUNNING:
        text = f"it runs, at worker {job.worker}"
        return (Reason(ReasonKind.RUNNING, text, {"worker": job.worker}),)
    found = [*_held_back(job), *_too_early(job, now), *_nobody(job, workers)]
    return tuple(found) or tuple(_in_line(job))


def _held_back(job: Standing) -> Iterator[Reason]:
    for limit in job.paused:
        text = f"{limit!r} is paused: nothing of it starts until it is resumed"
        yield Reason(ReasonKind.PAUSED, text, {"limit": limit})
    if job.after:
        text = f"it comes after {_jobs(job.after)}, which has not ended as it has to"
        yield Reason(ReasonKind.AFTER, text, {"jobs": list(job.after)}, _BRIEF_AFTER)
    if job.held_by is not None:
        text = f"job {job.held_by} has the same key, and has not ended"
        yield Reason(ReasonKind.KEY, text, {"job": job.held_by}, _BRIEF_KEY)
    if job.full is not None and job.full.limit not in job.paused:
        yield _behind(job.full)
    if job.state is JobState.BLOCKED and not (job.paused or job.after or job.held_by or job.full):
        text = (
            "it is blocked, and nothing says by what: workers release such jobs every few minutes"
        )
        yield Reason(ReasonKind.BLOCKED, text)


def _behind(full: Full) -> Reason:
    facts = {"limit": full.limit, "key": full.key, "most": full.most, "running": full.running}
    whose = f" for {full.key!r}" if full.key else ""
    if full.most is None:
        text = f"it waited for limit {full.limit!r}, which is gone: it is released in a moment"
    elif full.per is not None:
        text = f"limit {full.limit!r}{whose} lets {full.most} start in {full.per:g} s"
    else:
        text = f"limit {full.limit!r}{whose} is full: {full.running} of {full.most} run"
    brief = "" if full.most is None else f"limit {full.limit!r} lets no more start now"
    return Reason(ReasonKind.LIMIT, text, facts, brief)


def _too_early(job: Standing, now: datetime) -> Iterator[Reason]:
    if job.state is not JobState.SCHEDULED or job.run_at <= now:
        return
    facts = {"run_at": job.run_at, "attempt": job.attempt}
    if job.attempt:
        text = f"attempt {job.attempt} has ended, and the next one is at {job.run_at.isoformat()}"
        yield Reason(ReasonKind.RETRY, text, facts)
    else:
        yield Reason(ReasonKind.TIME, f"it is due at {job.run_at.isoformat()}", facts)


def _nobody(job: Standing, workers: Sequence[WorkerRecord]) -> Iterator[Reason]:
    alive = [each for each in workers if each.alive and each.concurrency > 0]
    facts = {"queue": job.queue, "task": job.task}
    if not alive:
        yield Reason(ReasonKind.NO_WORKER, "no worker is running", facts)
    elif not any(each.serves(job.queue) for each in alive):
        text = f"no worker that runs takes jobs of queue {job.queue!r}"
        yield Reason(ReasonKind.NO_QUEUE, text, facts)
    elif not any(each.serves(job.queue, job.task) for each in alive):
        text = f"no worker that takes jobs of queue {job.queue!r} knows task {job.task!r}"
        yield Reason(ReasonKind.NO_TASK, text, facts)


def _in_line(job: Standing) -> Iterator[Reason]:
    if job.carried:
        yield Reason(ReasonKind.CARRIED, "a broker has its message, and workers hear of it there")
    if job.ahead:
        more = "at least " if job.ahead >= MOST_AHEAD else ""
        text = f"{more}{job.ahead} jobs of queue {job.queue!r} with its priority are before it"
        facts = {"jobs": job.ahead, "queue": job.queue}
        yield Reason(ReasonKind.AHEAD, text, facts, "jobs of its queue are before it")
    if not job.carried and not job.ahead:
        text = "it is due, and first in its lane: the next worker with a free slot takes it"
        yield Reason(ReasonKind.SOON, text)


def _jobs(ids: Iterable[int]) -> str:
    named = list(ids)
    return f"job{'s' if len(named) > 1 else ''} {', '.join(map(str, named))}"
