"""Limits: how many jobs may run at once, or start in a time; what they say, and how it is decided.

`admit` and the arithmetic of tokens are pure functions. SQLite and the store in memory ask them;
PostgreSQL says the same in functions of its own, because there workers claim at the same time.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from mutirao.errors import InvalidLimit
from mutirao.job import MAX_QUEUE_NAME, MAX_TASK_NAME, Claim, Lane, Wake

BEGINNING = datetime(1, 1, 2, tzinfo=UTC)  # before any job's time
MAX_LIMIT_NAME = 200
MAX_VALUE = 200  # characters of an argument that are compared
MOST = 1_000_000_000
LOOK = 0.02  # seconds between looks for tokens, at the most often
KEPT = 3_600.0  # seconds that a counter is kept of which nothing is heard
VOUCHED = timedelta(minutes=3)  # a limit of which no worker spoke for so long is in no code


class Origin(StrEnum):
    """Who made a limit."""

    CODE = "code"
    COMMAND = "command"  # `app.limits`, or the command line
    PAUSE = "pause"


@dataclass(frozen=True, slots=True)
class Limit:
    """At most so many jobs at once; or, with `per`, so many that start in a time.

    Parameters:
        most: how many; 1 or more.
        per: seconds, or a `timedelta`, in which so many may start.
        burst: how many may start together after a rest; 1 unless given. With `per` only.
        by: the name of an argument, each of whose values is counted apart.
        name: what it is called where limits are listed; made of the rest unless given.

    Raises:
        InvalidLimit: it would let nothing run, or contradicts itself.
    """

    most: int
    per: float | timedelta | None = None
    burst: int | None = None
    by: str | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        _check_number("most", self.most, "; to let nothing run, pause the queue or the task")
        if self.per is not None:
            object.__setattr__(self, "per", _seconds(self.per))
        if self.burst is not None:
            _check_number("burst", self.burst, "")
            if self.per is None:
                raise InvalidLimit(
                    f"burst is {self.burst}, but no period is given; give per=60 for a rate by the"
                    " minute, or leave burst out"
                )
        if self.by is not None:
            check_name("argument (by)", self.by, MAX_LIMIT_NAME)
        if self.name is not None:
            check_name("limit's name", self.name, MAX_LIMIT_NAME)

    def on(self, *, queue: str | None = None, task: str | None = None) -> "Rule":
        """Return the rule that this limit is for a queue or a task.

        Raises:
            InvalidLimit: neither or both are given.
        """
        check_place(queue, task)
        covered = f"queue {queue}" if task is None else f"task {task}"
        usual = f"{covered} by {self.by}" if self.by else covered
        per = self.per.total_seconds() if isinstance(self.per, timedelta) else self.per
        name = self.name or (usual if per is None else f"{usual} rate")[:MAX_LIMIT_NAME]
        burst = None if per is None else self.burst or 1
        return Rule(
            name=name, queue=queue, task=task, by=self.by, most=self.most, per=per, burst=burst
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A limit of a queue or a task, as it is written down. A pause is one whose `most` is 0.

    `key` is the only value of the argument `by` that it is about; None: each value apart.
    """

    name: str
    queue: str | None = None
    task: str | None = None
    by: str | None = None
    key: str | None = None
    most: int
    per: float | None = None
    burst: int | None = None

    @property
    def covers(self) -> tuple[str | None, ...]:
        """What its counters count; another cover means other counters."""
        return (self.queue, self.task, self.by, self.key, str(self.per is None))

    @property
    def fingerprint(self) -> str:
        """What it says, as text."""
        return json.dumps([*self.covers, self.most, self.per, self.burst])

    @property
    def stops_a_queue(self) -> bool:
        """Whether it is the pause of a whole queue, whose lanes are not read at all."""
        return self.most == 0 and self.queue is not None and self.by is None

    def counter(self, queue: str, task: str, args: str) -> str | None:
        """Return the key under which this rule counts a job; None if it does not cover it."""
        if queue != self.queue and task != self.task:
            return None
        if self.by is None:
            return ""
        value = value_of(args, self.by)
        if self.key is None:
            return value
        return "" if value == self.key else None


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitRecord:
    """How full a limit is, for one value of its argument (`key`; None: nobody came yet).

    `tokens` are the jobs that may start now, where it is a rate; `parked` are those that wait for
    it. `in_code` is False for one that was declared in code and is in no live worker's.
    """

    name: str
    queue: str | None
    task: str | None
    by: str | None
    key: str | None
    most: int
    per: float | None
    burst: int | None
    paused: bool
    running: int
    tokens: float | None
    parked: int
    origin: Origin
    in_code: bool | None
    declared_at: datetime | None
    declared_by: str | None
    created_at: datetime
    changed_at: datetime


class Settled(set[int]):
    """Ids of settled jobs, and where other jobs came to be ready because these had ended."""

    woken: tuple[Wake, ...] = ()


class Claimed(list[Claim]):
    """Claimed jobs, and where others came to be ready meanwhile that were not claimed."""

    woken: tuple[Wake, ...] = ()


class CounterName(NamedTuple):
    """A limit and the value it counts."""

    limit: str
    key: str


class Candidate(NamedTuple):
    """A job that is due, and everything that counts it."""

    id: int
    counters: tuple[CounterName, ...]


class Admission(NamedTuple):
    """Who may run now, in order, and behind what the others wait."""

    taken: list[Candidate]
    parked: dict[int, CounterName]


def both(some: set[int], others: set[int]) -> set[int]:
    """Return all ids of two settlements, with what either of them woke."""
    woken = tuple(
        wake for each in (some, others) if isinstance(each, Settled) for wake in each.woken
    )
    together = Settled(some | others)
    together.woken = woken
    return together if woken else set(together)


def admit(candidates: Iterable[Candidate], room: Mapping[CounterName, int], most: int) -> Admission:
    """Let in whoever all limits have room for, one after the other, up to `most` jobs.

    Nobody is let in by half. Of those beyond `most` nothing is said but that a limit is full.
    """
    left, admission = dict(room), Admission([], {})
    for job in candidates:
        full = next((name for name in job.counters if left[name] < 1), None)
        if full is not None:
            admission.parked[job.id] = full
        elif len(admission.taken) < most:
            admission.taken.append(job)
            for name in job.counters:
                left[name] -= 1
    return admission


def lowered(lanes: Sequence[Lane], wakes: Sequence[Wake]) -> list[Lane]:
    """Return the lanes, to be read from where jobs came back to them."""
    back = {(wake.queue, wake.priority): wake.run_at for wake in wakes}
    bounds = ((lane, back.get((lane.queue, lane.priority))) for lane in lanes)
    return [
        lane if at is None or at > lane.run_at else lane._replace(run_at=at, id=0)
        for lane, at in bounds
    ]


def candidate(id: int, queue: str, task: str, args: str, rules: Iterable[Rule]) -> Candidate:
    """Return a job with what counts it."""
    found = ((rule.name, rule.counter(queue, task, args)) for rule in rules)
    return Candidate(id, tuple(CounterName(name, key) for name, key in found if key is not None))


def filled(rule: Rule, tokens: float, since: datetime, now: datetime) -> float:
    """Return the tokens of a rate now, if there were so many at `since`."""
    if rule.per is None or rule.burst is None:
        return 0.0
    passed = max(0.0, (now - since).total_seconds())
    return min(float(rule.burst), tokens + rule.most / rule.per * passed)


def next_look(rule: Rule, tokens: float) -> float:
    """Return the seconds after which there is another token, or several where they come fast."""
    if rule.per is None or rule.burst is None:
        return 0.0
    each = rule.per / rule.most
    return max((1 - tokens % 1) * each, min(LOOK, rule.burst * each / 2))


def value_of(args: str, by: str) -> str:
    """Return the value of an argument as text; '' if it is missing or null."""
    value = json.loads(args).get(by)
    if value is None:
        return ""
    if not isinstance(value, str):
        value = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return str(value[:MAX_VALUE])


def pause_of(
    queue: str | None, task: str | None, by: str | None = None, key: str | None = None
) -> Rule:
    """Return the rule that lets nothing of a queue, a task, or a value of it run."""
    check_place(queue, task)
    covered = f"queue {queue}" if task is None else f"task {task}"
    name = f"pause {covered}" if key is None else f"pause {covered} {by}={key}"
    return Rule(name=name[:MAX_LIMIT_NAME], queue=queue, task=task, by=by, key=key, most=0)


def check_place(queue: str | None, task: str | None) -> None:
    """Raise InvalidLimit unless exactly one of a queue and a task is named."""
    if (queue is None) == (task is None):
        raise InvalidLimit(
            f"queue is {queue!r} and task is {task!r}; name the one or the other: queue=… or task=…"
        )
    if queue is not None:
        check_name("queue name", queue, MAX_QUEUE_NAME)
    if task is not None:
        check_name("task name", task, MAX_TASK_NAME)


def check_name(what: str, value: object, longest: int) -> None:
    """Raise InvalidLimit unless `value` is text of 1 to `longest` characters without NUL."""
    if not isinstance(value, str) or not 1 <= len(value) <= longest or "\x00" in value:
        raise InvalidLimit(f"the {what} is {value!r}; give text of 1 to {longest} characters")


def _check_number(what: str, value: object, instead: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST:
        raise InvalidLimit(
            f"{what} is {value!r}; give a whole number of 1 or more, up to {MOST:,}{instead}"
        )


def _seconds(per: object) -> float:
    length = per.total_seconds() if isinstance(per, timedelta) else per
    number = isinstance(length, int | float) and not isinstance(length, bool)
    if not number or not 0 < length < math.inf:  # type: ignore[operator]
        raise InvalidLimit(f"per is {per!r}; give more than 0 seconds, or a timedelta")
    return float(length)  # type: ignore[arg-type]
