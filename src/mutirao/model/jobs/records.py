"""Jobs as people, dashboards and tests see them, and the filter that selects them.

`JobRecord` is what was enqueued, its state and its history; nothing here acts.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from enum import StrEnum
from math import isfinite
from typing import Any, NamedTuple, TypedDict

from mutirao.errors import InvalidFilter
from mutirao.model.deploys import Served
from mutirao.model.filters.conditions import Aspect, Exactly, Scalar, Term
from mutirao.model.jobs.job import JobState, OutcomeKind

MAX_INTEGER = 2**63 - 1  # the largest integer that databases store


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRecord:
    """One row of history: one execution of a job.

    `status`: of the answer, if it sent a webhook and was answered.
    """

    attempt: int
    run: int
    worker: int | None
    outcome: OutcomeKind
    started_at: datetime
    finished_at: datetime
    error_type: str | None
    error: str | None
    status: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord:
    """A job as people see it: what was enqueued, its state and, on request, all its attempts.

    With its attempts, `result` is its returned value as JSON, while that is kept, and `payload` is
    the publication's, if it is a delivery.
    """

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
    tenant: str | None = None
    group: str | None = None
    graph: int | None = None
    stage: str | None = None  # the part of the graph
    progress: float | None = None  # as the handler last reported
    progress_of: float | None = None
    progress_note: str | None = None
    result: Any = None
    payload: Any = None
    expires_at: datetime | None = None  # after that it does not start any more
    attempts: tuple[AttemptRecord, ...] = ()


@dataclass(frozen=True, slots=True)
class DeadJob:
    """The argument of an `on_dead` handler: the job that died, and why."""

    id: int
    task: str
    queue: str
    args: dict[str, Any]
    attempts: int
    error_type: str | None
    error: str | None
    tenant: str | None = None
    group: str | None = None


class Progress(NamedTuple):
    """The progress of an attempt, as its handler reported it."""

    job: int
    run: int
    done: float
    of: float | None
    note: str | None


class Ending(NamedTuple):
    """The state of a job, for code that waits for its end. `result` is JSON, if one was kept."""

    id: int
    task: str
    state: JobState | None  # None while it is live
    result: str | None
    error_type: str | None
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """The jobs that a listing, a cancel or a redrive selects; a field of None matches all."""

    ids: tuple[int, ...] | None = None
    state: JobState | None = None
    states: tuple[JobState, ...] | None = None  # any of these; instead of `state`
    queue: str | None = None
    queues: tuple[str, ...] | None = None  # any of these; instead of `queue`
    task: str | None = None
    tag: str | None = None
    error_type: str | None = None  # with its module, or without: shop.Busy, Busy
    graph: int | None = None
    key: str | None = None
    tenant: str | None = None
    group: str | None = None
    args: Mapping[str, Scalar] | None = None  # some of the arguments, and their values
    fingerprint: str | None = None  # of all arguments, if the task is findable
    before: datetime | None = None  # enqueued before
    after: datetime | None = None  # enqueued at or after
    terms: tuple[Term, ...] | None = None  # of a filter text; they have to match as well
    among: tuple[int, ...] | None = None  # only jobs that were found before; unlike `ids`, no names
    limit: int | None = 100

    def __post_init__(self) -> None:
        object.__setattr__(self, "ids", _ids(self.ids))
        object.__setattr__(self, "state", _state(self.state))
        object.__setattr__(self, "states", _states(self.state, self.states))
        object.__setattr__(self, "queues", _queues(self.queue, self.queues))
        object.__setattr__(self, "args", _args(self.args))
        if self.graph is not None:
            checked_id(self.graph)
        checked_limit(self.limit)
        _check_moment("before", self.before)
        _check_moment("after", self.after)

    @property
    def any_state(self) -> frozenset[JobState] | None:
        """The states that match; None: all."""
        given = self.states if self.state is None else (self.state,)
        said = [each for each in self.terms or () if each.aspect is Aspect.STATE]
        if given is None and not said:
            return None
        found = frozenset(JobState if given is None else given)
        for each in said:
            named = {JobState(str(v.value)) for v in each.values if isinstance(v, Exactly)}
            found = found - named if each.negated else found & named
        return found

    @property
    def named(self) -> bool:
        """True if it names jobs by their ids, one by one."""
        return self.ids is not None or any(
            each.aspect is Aspect.ID
            and not each.negated
            and all(isinstance(value, Exactly) for value in each.values)
            for each in self.terms or ()
        )

    @property
    def narrows(self) -> bool:
        """True if any field but `limit` is set."""
        return any(
            getattr(self, each.name) is not None for each in fields(self) if each.name != "limit"
        )


class Which(TypedDict, total=False):
    """The fields of a `JobFilter` as keyword arguments; a state may be text.

    `filter` is a text (see docs/filters.md), which has to match as well: "task:send_* older:2h".
    A value of `args` may be anything that is a text, a number, true, false or null in JSON. Dots in
    its name lead into objects: `{"order.id": 7}`.
    """

    ids: Iterable[int] | None
    state: JobState | str | None
    states: Iterable[JobState | str] | None
    queue: str | None
    queues: Iterable[str] | None
    task: str | None
    tag: str | None
    error_type: str | None
    graph: int | None
    key: str | None
    tenant: str | None
    group: str | None
    args: Mapping[str, Any] | None
    fingerprint: str | None
    before: datetime | None
    after: datetime | None
    filter: str | None
    limit: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueCount:
    """The number of jobs of a queue in a state, and the age of the oldest."""

    queue: str
    state: JobState
    jobs: int
    oldest_age: float | None  # seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerRecord:
    """A registered worker, what it serves, and how many jobs it holds.

    `queues` None: all but `exclude_queues`; `tasks` None: all of its application. `version`: of the
    package; `app_version`: of its application, if it was given.
    """

    id: int
    name: str
    host: str
    pid: int
    queues: tuple[str, ...] | None
    exclude_queues: tuple[str, ...]
    tasks: tuple[str, ...] | None
    concurrency: int
    version: str
    app_version: str | None
    started_at: datetime
    beat_at: datetime
    expires_at: datetime
    alive: bool
    listening: bool
    stuck: int
    late: float  # seconds; the longest delay of recent beats
    running: int

    def serves(self, queue: str, task: str | None = None) -> bool:
        """Return whether it takes jobs of a queue, and of that task in it; a relay takes none."""
        serves = Served(self.queues, self.exclude_queues, self.tasks)
        return self.concurrency > 0 and serves.has(queue, task)


class GraphState(StrEnum):
    """The state of a graph."""

    RUNNING = "running"  # or about to run
    STOPPED = "stopped"  # the remaining steps wait for one that died or was cancelled
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
    after: tuple[int, ...]  # the jobs that it waits or waited for


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphRecord:
    """A graph as people see it: its state, its number of jobs by state, and its current stage.

    `stage` is the earliest that is not finished; None once all have succeeded. `id` is the id of
    the graph's first job.
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


def _queues(queue: str | None, queues: object) -> tuple[str, ...] | None:
    if queues is None:
        return None
    if queue is not None:
        raise InvalidFilter(f"queue is {queue!r} and queues are {queues!r}; give one of them")
    if isinstance(queues, str) or not isinstance(queues, Iterable):
        raise InvalidFilter(f'queues are {queues!r}; give several names, such as ["mail", "video"]')
    return tuple(queues)


def _ids(ids: Iterable[object] | None) -> tuple[int, ...] | None:
    if ids is None:
        return None
    return tuple(checked_id(id) for id in ids)


def checked_id(id: object) -> int:
    """Return the id of a job or a graph; raise InvalidFilter if it cannot be one."""
    if isinstance(id, bool) or not isinstance(id, int) or not 0 < id <= MAX_INTEGER:
        raise InvalidFilter(
            f"{id!r} is no id; give a whole number from 1 to {MAX_INTEGER}, such as handle.id"
        )
    return id


def checked_limit(limit: object) -> int | None:
    """Return the maximum number of records; raise InvalidFilter if it is not one."""
    if limit is None:
        return None
    if isinstance(limit, bool) or not isinstance(limit, int) or not 0 <= limit <= MAX_INTEGER:
        raise InvalidFilter(
            f"limit is {limit!r}; give a whole number from 0 to {MAX_INTEGER}, or None for all"
        )
    return limit


def _state(state: str | None) -> JobState | None:
    try:
        return None if state is None else JobState(state)
    except ValueError:
        known = ", ".join(JobState)
        raise InvalidFilter(f"no job is ever {state!r}; the states are {known}") from None


def _states(state: JobState | None, states: Iterable[str] | None) -> tuple[JobState, ...] | None:
    if states is None:
        return None
    if state is not None:
        raise InvalidFilter("both state and states are given; give one of them")
    if isinstance(states, str) or not isinstance(states, Iterable):
        raise InvalidFilter(f"states is {states!r}; give a list, such as ['ready', 'dead']")
    return tuple(found for each in states if (found := _state(each)) is not None)


def _args(args: object) -> Mapping[str, Scalar] | None:
    if args is None or args == {}:
        return None
    if not isinstance(args, Mapping):
        raise InvalidFilter(f"args is {args!r}; give a dict, such as {{'order_id': 7}}")
    for name, value in args.items():
        if not isinstance(name, str):
            raise InvalidFilter(f"args names {name!r}; give the argument's name as text")
        if not _is_storable(name) or not _is_storable(value):
            raise InvalidFilter(
                f"args says {name!r} is {value!r}, with a NUL or half a character in it; no job has"
                " such an argument"
            )
        if isinstance(value, Mapping):
            raise InvalidFilter(
                f"args says {name} is {value!r:.200}; name what is in an object, with dots on the"
                f" way into it, such as {{'{name}.id': 7}}"
            )
        if value is not None and not isinstance(value, str | int | float):
            raise InvalidFilter(
                f"args says {name} is {value!r}; give a text, a number, true, false or None"
            )
        if isinstance(value, float) and not isfinite(value):
            raise InvalidFilter(f"args says {name} is {value!r}; give a finite number")
    return args


def _is_storable(value: object) -> bool:
    """Return whether a value, if it is text, is one that every database can hold."""
    if not isinstance(value, str):
        return True
    return "\x00" not in value and not any("\ud800" <= each <= "\udfff" for each in value)


def _check_moment(name: str, moment: object) -> None:
    if moment is not None and (not isinstance(moment, datetime) or moment.tzinfo is None):
        raise InvalidFilter(f"{name} is {moment!r}; give a datetime with a time zone")
