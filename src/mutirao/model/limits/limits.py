"""Limits on how many jobs run at once, or start in a period: values and decisions.

`admit` and the token arithmetic are pure functions. `sql/rules` calls them; PostgreSQL does the
same in its own functions, because its workers claim at the same time.
"""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from hashlib import sha256
from typing import NamedTuple

from mutirao.errors import InvalidLimit
from mutirao.model.jobs.job import MAX_QUEUE_NAME, MAX_TASK_NAME
from mutirao.model.limits.limit_values import NOBODY, Whose, value_of

MAX_LIMIT_NAME = 200
MAX_RUNNING_OR_PER_PERIOD = 1_000_000_000
PROBE_EVERY = 0.02  # minimum seconds between checks for tokens
PROVEN_ENOUGH = 1_000_000  # starts that went well are counted up to this number
# This part of a rate per second may start at once, so that a claim that comes late by this much,
# 50 ms, loses no token.
TOGETHER = 0.05
COUNTER_KEPT_FOR = 3_600.0  # seconds that an unused counter is kept
OWN_TASKS = "mutirao."  # prefix of the names of Mutirão's own tasks


class RateTerms(NamedTuple):
    """The terms of a limit of one start in `per` seconds, with a `burst`."""

    per: float
    burst: int


def pace_of(rate: float) -> RateTerms:
    """Return the terms by which no second has more starts than `rate`, rounded up.

    The starts at once are subtracted from the tokens of a second: over a long time, jobs start at
    95 in 100 of the rate at least.
    """
    burst = max(1, math.ceil(rate * TOGETHER))
    return RateTerms(1 / (rate - burst + 1), burst)


class LimitOrigin(StrEnum):
    """The origin of a limit."""

    CODE = "code"
    COMMAND = "command"  # `app.limits`, or the command line
    PAUSE = "pause"


@dataclass(frozen=True, slots=True)
class Limit:
    """At most `most` jobs at once; or, with `per`, at most `most` starts in any such period.

    Parameters:
        most: how many; 1 or more.
        per: the period in which `most` jobs may start, in seconds or as a `timedelta`.
        burst: how many jobs may start together after a pause; 1 unless given. Only with `per`. A
            period may have `most` starts, and `burst` - 1 more.
        by: the name of an argument, each of whose values is counted separately.
        name: the name in listings; made of the other parameters unless given.

    Raises:
        InvalidLimit: the limit would let no job run, or contradicts itself.
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
        """Return the rule of this limit for a queue or a task.

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
    """A limit of a queue or a task, as it is stored. A pause is a rule whose `most` is 0.

    `key` is the only value of the argument `by` that the rule covers; None: each value separately.
    `start` is how many may run at once at first: each job that goes well admits one more.
    """

    name: str
    queue: str | None = None
    task: str | None = None
    by: str | None = None
    key: str | None = None
    most: int
    per: float | None = None
    burst: int | None = None
    start: int | None = None

    @property
    def covers(self) -> tuple[str | None, ...]:
        """Return what its counters count; rules that count something else have other counters."""
        return (self.queue, self.task, self.by, self.key, str(self.per is None))

    @property
    def fingerprint(self) -> str:
        """The terms of the rule, as text."""
        return json.dumps([*self.covers, self.most, self.per, self.burst, self.start])

    @property
    def stops_a_queue(self) -> bool:
        """True if this is the pause of a whole queue, whose lanes claims do not read at all."""
        return self.most == 0 and self.queue is not None and self.by is None

    def bound(self, proven: int) -> int:
        """Return how many may run at once, after this number of jobs went well."""
        return self.most if self.start is None else min(self.most, self.start + proven)

    def counter(self, queue: str, task: str, args: str, whose: Whose = NOBODY) -> str | None:
        """Return the key under which this rule counts a job; None if it does not cover it."""
        if queue != self.queue and task != self.task:
            return None
        if self.by is None:
            return ""
        value = value_of(args, self.by, whose)
        if self.key is None:
            return value
        return "" if value == self.key else None


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitRecord:
    """The use of a limit, for one value of its argument (`key`; None: no job has come yet).

    `tokens` is the number of jobs that may start now, for a rate; `parked` is the number of jobs
    that wait for it. `in_code` is False if the limit was declared in code and no live worker has it
    in its code.
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
    origin: LimitOrigin
    in_code: bool | None
    declared_at: datetime | None
    declared_by: str | None
    created_at: datetime
    changed_at: datetime

    @property
    def is_left(self) -> bool:
        """True if the code of an application declared it, and no live worker's code does.

        Not for limits of Mutirão's own tasks: only workers with that part, such as `--webhooks`,
        have them in their code, and without them deliveries would have no bound.
        """
        return self.in_code is False and not (self.task or "").startswith(OWN_TASKS)


def name_about(what: str, key: str, more: str = "") -> str:
    """Return the name of a limit about one thing, with a digest in place of a long key."""
    name = f"{what} {key} {more}".rstrip()
    if len(name) <= MAX_LIMIT_NAME:
        return name
    return f"{what} {key[:80]}… {sha256(key.encode()).hexdigest()[:16]} {more}".rstrip()


class CounterName(NamedTuple):
    """A limit and the value that it counts."""

    limit: str
    key: str


class Candidate(NamedTuple):
    """A due job with all counters that count it."""

    id: int
    counters: tuple[CounterName, ...]


class Admission(NamedTuple):
    """The jobs that may run now, in order, and the full counter for each of the other jobs."""

    taken: list[Candidate]
    parked: dict[int, CounterName]


def admit(candidates: Iterable[Candidate], room: Mapping[CounterName, int], most: int) -> Admission:
    """Admit the jobs for which all limits have room, one after another, up to `most` jobs.

    A job takes all its slots or none. Of jobs beyond `most`, only those with a full limit are
    reported.
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


def candidate(
    id: int, queue: str, task: str, args: str, rules: Iterable[Rule], whose: Whose = NOBODY
) -> Candidate:
    """Return a job with the counters that count it."""
    found = ((rule.name, rule.counter(queue, task, args, whose)) for rule in rules)
    return Candidate(id, tuple(CounterName(name, key) for name, key in found if key is not None))


def filled(rule: Rule, tokens: float, since: datetime, now: datetime) -> float:
    """Return the tokens of a rate at `now`, if there were `tokens` at `since`."""
    if rule.per is None or rule.burst is None:
        return 0.0
    passed = max(0.0, (now - since).total_seconds())
    return min(float(rule.burst), tokens + rule.most / rule.per * passed)


def next_look(rule: Rule, tokens: float) -> float:
    """Return the seconds until there is another token, or several if they come fast."""
    if rule.per is None or rule.burst is None:
        return 0.0
    each = rule.per / rule.most
    return max((1 - tokens % 1) * each, min(PROBE_EVERY, rule.burst * each / 2))


def pause_of(
    queue: str | None, task: str | None, by: str | None = None, key: str | None = None
) -> Rule:
    """Return the rule that pauses a queue, a task, or one value of its argument `by`."""
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
    if (
        isinstance(value, bool)
        or not isinstance(value, int)
        or not 1 <= value <= MAX_RUNNING_OR_PER_PERIOD
    ):
        raise InvalidLimit(
            f"{what} is {value!r}; give a whole number of 1 or more, up to"
            f" {MAX_RUNNING_OR_PER_PERIOD:,}{instead}"
        )


def _seconds(per: object) -> float:
    length = per.total_seconds() if isinstance(per, timedelta) else per
    number = isinstance(length, int | float) and not isinstance(length, bool)
    if not number or not 0 < length < math.inf:  # type: ignore[operator]
        raise InvalidLimit(f"per is {per!r}; give more than 0 seconds, or a timedelta")
    return float(length)  # type: ignore[arg-type]
