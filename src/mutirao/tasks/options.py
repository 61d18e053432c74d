"""The options of a task, of one call of it, and of `app.change(…)`; each is defined only here.

`TaskTerms` are the parameters of `@app.task(…)`, `CallTerms` those of `task.using(…)`;
`TaskOptions` and `template_of` hold the result. A new option of a task is added to `TaskTerms`, to
`TaskOptions` and where it is used; one of a call to `CallTerms` with its text, to `template_of` and
to `NewJob`: the command line makes its options of `CallTerms`. `Task.on_dead` lists the
options that the `on_dead` handler of a task does not inherit.
"""

from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from math import inf
from typing import Annotated, Any, Literal, Self, TypedDict

from mutirao.errors import InvalidJob, InvalidLimit, InvalidTask
from mutirao.model.jobs.change import Change
from mutirao.model.jobs.expiry import EXPIRES_KEY, expiring
from mutirao.model.jobs.job import DEFAULT_QUEUE, NewJob
from mutirao.model.jobs.retry import MAX_WAIT, RetryPolicy, policy_of, seconds
from mutirao.model.keys.supersede import Supersede
from mutirao.model.keys.uniqueness import FOREVER, OnConflict, Unique
from mutirao.model.limits.limits import Limit
from mutirao.tasks.handle import keeping
from mutirao.tasks.validation import check_attempts, check_priority, check_queue, check_when

Conflict = OnConflict | Literal["keep", "replace", "rerun", "error"]
Duration = float | timedelta
Version = float | datetime
Expiry = float | timedelta | datetime
Tags = tuple[str, ...] | list[str]


class KeyTerms(TypedDict, total=False):
    """The options of a job's key.

    Parameters:
        on_conflict: what happens if another job has the key: "keep" that job (the default),
            "replace" it if it waits, "rerun" after it if it runs, or raise an "error".
        unique_for: seconds (or a `timedelta`) for which it holds the key after it has finished;
            "forever": until it is pruned.
        scope: a name; all jobs with this scope share keys, instead of the task's jobs in the queue.
        debounce_limit: maximum seconds (or a `timedelta`) by which replacing may delay the first
            job.
    """

    on_conflict: Annotated[Conflict | None, "If another one has the key."]
    unique_for: Annotated[
        Duration | Literal["forever"] | None,
        "Hold the key so long after the job has finished, or: forever.",
    ]
    scope: Annotated[str | None, "Who shares keys, instead of the task's jobs in the queue."]
    debounce_limit: Annotated[Duration | None, "The longest that replacing may put a job off."]


class TaskTerms(KeyTerms, total=False):
    """The parameters of `@app.task(…)`.

    Parameters:
        name: the name under which jobs are stored; the function's name unless given.
        queue, priority: the lane of the jobs; smaller priorities run first.
        retry, max_attempts: when a failed job runs again, and how often; the application's default
            unless given.
        timeout: maximum seconds (or a `timedelta`) of an attempt; None: no limit; the application's
            default unless given.
        stall_timeout: maximum seconds (or a `timedelta`) that an attempt may go without a sign of
            life, `job.progress(…)` or `job.alive()`; None: no limit.
        process: run the handler in a child process, which a timeout can kill.
        tags: given to every job of this task.
        supersede: the rule by which a newer job of a key makes an older one redundant; replaces the
            other options of a key.
        findable: store a fingerprint of the arguments, for `find`.
        limit: how many jobs run at once, or start in a period.
        fair_by: the argument by whose values the jobs are claimed fairly.
        expires: the seconds (or a `timedelta`) after which each job expires, from when it is
            enqueued; a job that has not started by then ends as cancelled.
        keep_result: store the result: True as long as the history, or for this many seconds.
    """

    name: str | None
    queue: str
    priority: int
    retry: RetryPolicy | None
    max_attempts: int | None
    timeout: Duration | None
    stall_timeout: Duration | None
    process: bool
    tags: Iterable[str]
    supersede: Supersede | None
    findable: bool
    limit: Limit | Iterable[Limit]
    keep_result: bool | Duration
    fair_by: str | None
    expires: Duration | None


class CallTerms(KeyTerms, total=False):
    """The parameters of `task.using(…)`, besides `conn`, with their texts on the command line.

    Parameters:
        queue: replaces the task's queue.
        priority: smaller priorities run first; -32768 to 32767.
        run_at: the job is due at this aware datetime.
        delay: the job is due this many seconds (or a `timedelta`) from now; instead of `run_at`.
        expires: the job expires at this aware datetime, or this many seconds (or a `timedelta`)
            from now: no attempt starts after that, and it ends as cancelled.
        max_attempts: the number of executions in all; replaces the retry policy's.
        timeout: maximum seconds (or a `timedelta`) of an attempt.
        key: a unique key of 1 to 200 characters, which one job holds until it has finished.
        version: the number of the update that the job is about, or its moment (an aware datetime),
            with "replace" or "rerun": nothing is written if a newer one was enqueued for the key.
        tags: added to the task's tags.
        metadata: any JSON object; the handler finds it in `job.metadata`.
        traceparent: the W3C trace context of the caller.
        tenant, group: the job's tenant, and the group of the tenant: 1 to 200 characters each.
    """

    queue: Annotated[str | None, "Instead of the task's."]
    priority: Annotated[int | None, "Smaller runs first."]
    run_at: Annotated[datetime | None, "Not before this moment."]
    delay: Annotated[Duration | None, "Not before so long from now (90, 15m, 2h)."]
    expires: Annotated[
        Expiry | None, "Do not start it after this moment, or so long from now (90, 15m, 2h)."
    ]
    max_attempts: Annotated[int | None, "Instead of the task's."]
    timeout: Annotated[Duration | None, "Instead of the task's."]
    key: Annotated[str | None, "At most one job has it until it has finished."]
    version: Annotated[
        Version | None,
        "The update's number or moment: nothing is enqueued if a newer one was.",
    ]
    tags: Annotated[Tags, "Added to the task's; may be repeated."]
    metadata: Annotated[Mapping[str, Any] | None, "A JSON object kept with the job."]
    traceparent: Annotated[str | None, "W3C trace context."]
    tenant: Annotated[str | None, "Whose job it is."]
    group: Annotated[str | None, "And of which group."]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOptions:
    """The options of a task, which apply unless a call replaces them.

    `retry`, `max_attempts` and `timeout` (seconds; inf: no limit) are None where the defaults of
    the application apply; see `Task.terms`.
    """

    queue: str = DEFAULT_QUEUE
    priority: int = 0
    retry: RetryPolicy | None = None
    max_attempts: int | None = None
    timeout: float | None = None
    stall_timeout: float | None = None  # seconds
    process: bool = False
    tags: tuple[str, ...] = ()
    unique: Unique = field(default_factory=Unique)
    findable: bool = False
    keep_result: float | None = None  # seconds; inf: as long as the job's history
    limits: tuple[Limit, ...] = ()
    fair_by: str | None = None
    expires: float | None = None  # seconds

    def __post_init__(self) -> None:
        if not isinstance(self.retry, RetryPolicy | None):
            raise InvalidTask(f"retry is {self.retry!r}; give a policy, as in Retry.exponential(5)")
        policy_of(self.retry, self.max_attempts)  # raises if the number is out of range
        if self.expires is not None and not 0 < self.expires <= MAX_WAIT:
            raise InvalidTask(
                f"expires is {self.expires} seconds; give more than 0, or None for no limit"
            )
        if self.stall_timeout is not None and not 0 < self.stall_timeout < MAX_WAIT:
            raise InvalidTask(
                f"stall_timeout is {self.stall_timeout} seconds; give more than 0, or None for no"
                " limit"
            )

    @classmethod
    def of(cls, terms: TaskTerms) -> Self:
        """Return the options for the given terms.

        Raises:
            InvalidTask, InvalidJob, InvalidLimit: an option is out of range.
            TypeError: an option is unknown.
        """
        refuse_unknown("@app.task", terms, TaskTerms)
        usual = Unique(supersede=terms.get("supersede"))
        return cls(
            queue=terms.get("queue", DEFAULT_QUEUE),
            priority=terms.get("priority", 0),
            retry=terms.get("retry"),
            max_attempts=terms.get("max_attempts"),
            timeout=_timeout(terms),
            stall_timeout=length_of_time("stall_timeout", terms.get("stall_timeout")),
            process=terms.get("process", False),
            tags=several_tags(terms.get("tags", ())),
            unique=uniqueness(usual, terms),
            findable=terms.get("findable", False),
            limits=several_limits(terms.get("limit", ())),
            keep_result=keeping(terms.get("keep_result", False)),
            fair_by=terms.get("fair_by"),
            expires=length_of_time("expires", terms.get("expires")),
        )


def template_of(task: str, options: TaskOptions, terms: CallTerms) -> NewJob:
    """Return a job without arguments: the task's options, with those of the call replaced.

    Raises:
        InvalidJob: an option is out of range.
        TypeError: an option is unknown.
    """
    refuse_unknown("task.using", terms, CallTerms)
    queue, priority = terms.get("queue"), terms.get("priority")
    metadata, until = _until(options, terms)
    return NewJob(
        task=task,
        queue=options.queue if queue is None else queue,
        priority=options.priority if priority is None else priority,
        run_at=terms.get("run_at"),
        delay=length_of_time("delay", terms.get("delay")),
        max_attempts=terms.get("max_attempts"),
        timeout=length_of_time("timeout", terms.get("timeout")),
        key=terms.get("key"),
        tags=(*options.tags, *several_tags(terms.get("tags", ()))),
        metadata=metadata,
        traceparent=terms.get("traceparent"),
        tenant=terms.get("tenant"),
        group=terms.get("group"),
        unique=_unique(options, terms),
        fair_by=options.fair_by,
        expires=until,
    )


def refuse_unknown(what: str, given: Mapping[str, Any], terms: type) -> None:
    """Raise TypeError if an option is not among the terms, as Python does for parameters."""
    known = terms.__annotations__.keys()
    if unknown := sorted(given.keys() - known):
        raise TypeError(
            f"{what} has no option {', '.join(map(repr, unknown))}; there are"
            f" {', '.join(sorted(known))}"
        )


def _until(options: TaskOptions, terms: CallTerms) -> tuple[Mapping[str, Any], float | None]:
    """Return the metadata, with the moment at which a job expires; or else its lifetime."""
    given, metadata = terms.get("expires"), terms.get("metadata")
    said = {} if metadata is None else copy(metadata)
    if isinstance(given, datetime):
        if given.tzinfo is None:
            raise InvalidJob(
                f"expires is the naive datetime {given}; give one with a time zone, or a timedelta"
            )
        return expiring(said, given), None
    length = length_of_time("expires", given)
    if length is not None and not 0 < length <= MAX_WAIT:
        raise InvalidJob(f"expires is {given!r}; give more than 0 seconds, or a moment")
    if length is None and EXPIRES_KEY not in said:
        length = options.expires
    return said, length


def length_of_time(what: str, value: Duration | None) -> float | None:
    """Return seconds, given as a number or a `timedelta`; raise InvalidJob for anything else."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float | timedelta):
        raise InvalidJob(f"{what} is {value!r}; give seconds as a number, or a timedelta")
    return seconds(value)


def uniqueness(usual: Unique, terms: KeyTerms) -> Unique:
    """Return the usual options of a key, with the given ones replaced.

    Raises:
        InvalidJob: an option is invalid, or contradicts a supersede rule.
    """
    on_conflict, known = terms.get("on_conflict"), list(OnConflict)
    if on_conflict is not None and on_conflict not in known:
        raise InvalidJob(f"on_conflict is {on_conflict!r}; give one of {', '.join(known)}")
    given: dict[str, Any] = {
        "on_conflict": on_conflict and OnConflict(on_conflict),
        "unique_for": _window(terms.get("unique_for")),
        "scope": terms.get("scope"),
        "debounce_limit": length_of_time("debounce_limit", terms.get("debounce_limit")),
    }
    options = (given["on_conflict"], given["unique_for"], given["debounce_limit"])
    if usual.supersede is not None and options != (None, None, None):
        raise InvalidJob(
            "the task has a supersede rule, which says what a key means; leave on_conflict,"
            " unique_for and debounce_limit out"
        )
    return replace(usual, **{name: value for name, value in given.items() if value is not None})


def several_limits(limit: Limit | Iterable[Limit]) -> tuple[Limit, ...]:
    """Return a limit, or several, as a tuple; raise InvalidLimit for anything else."""
    limits = (limit,) if isinstance(limit, Limit) or not isinstance(limit, Iterable) else limit
    chosen = tuple(limits)
    for each in chosen:
        if not isinstance(each, Limit):
            raise InvalidLimit(f"limit is {each!r}; give a Limit, such as Limit(10), or several")
    return chosen


def several_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Return tags as a tuple; raise InvalidJob for a single text, whose letters are not tags."""
    if isinstance(tags, str) or not isinstance(tags, Iterable):
        raise InvalidJob(f"tags are {tags!r}; give a list, such as [{tags!r}]")
    return tuple(tags)


def _timeout(terms: TaskTerms) -> float | None:
    """Return seconds; inf if a task has explicitly no limit, None if it sets none."""
    given = length_of_time("timeout", terms.get("timeout"))
    return inf if given is None and "timeout" in terms else given


def _unique(options: TaskOptions, terms: CallTerms) -> Unique | None:
    version = terms.get("version")
    if terms.get("key") is not None:
        unique = uniqueness(options.unique, terms)
        return unique if version is None else replace(unique, version=_number_of(version))
    given: Mapping[str, Any] = terms
    if any(given.get(name) is not None for name in (*KeyTerms.__annotations__, "version")):
        raise InvalidJob(
            "on_conflict, unique_for, scope, debounce_limit and version say what a key means, and"
            " no key is given; give one: key=…"
        )
    return None


def _window(unique_for: Duration | str | None) -> float | None:
    if unique_for == "forever":
        return FOREVER
    if isinstance(unique_for, str):
        raise InvalidJob(
            f"unique_for is {unique_for!r}; give seconds as a number, or a timedelta, or 'forever'"
        )
    return length_of_time("unique_for", unique_for)


def _number_of(version: Version) -> float:
    """Return a version as a number: seconds since 1970 for a moment.

    A float distinguishes microseconds until the year 2255.
    """
    if isinstance(version, datetime) and version.tzinfo is not None:
        return version.timestamp()
    if isinstance(version, bool) or not isinstance(version, int | float):
        raise InvalidJob(f"version is {version!r}; give a number, or an aware datetime")
    return version


class ChangeTerms(TypedDict, total=False):
    """The new values of `app.change(…)`, with their texts on the command line.

    Options that are left out stay unchanged.

    Parameters:
        priority: smaller priorities run first; -32768 to 32767.
        queue: the queue in which the jobs wait from now on.
        run_at: the jobs are due at this aware datetime.
        delay: the jobs are due this many seconds (or a `timedelta`) from now; instead of `run_at`.
        max_attempts: the number of executions in all, including earlier ones.
    """

    priority: Annotated[int | None, "Their new priority; smaller runs first."]
    queue: Annotated[str | None, "Their new queue."]
    run_at: Annotated[datetime | None, "Not before this moment."]
    delay: Annotated[Duration | None, "Not before so long from now (90, 15m, 2h)."]
    max_attempts: Annotated[int | None, "How often they run in all."]


def change_of(terms: ChangeTerms) -> Change:
    """Return the change for the given terms.

    Raises:
        InvalidJob: nothing is given, or a value is out of range.
        TypeError: a value is unknown.
    """
    refuse_unknown("a change", terms, ChangeTerms)
    change = Change(
        priority=terms.get("priority"),
        queue=terms.get("queue"),
        run_at=terms.get("run_at"),
        delay=length_of_time("delay", terms.get("delay")),
        max_attempts=terms.get("max_attempts"),
    )
    if not change.changes:
        raise InvalidJob(
            "no new value is given; give priority, queue, run_at, delay or max_attempts"
        )
    if change.priority is not None:
        check_priority(change.priority)
    if change.queue is not None:
        check_queue(change.queue)
    check_when(change.run_at, change.delay)
    check_attempts(change.max_attempts)
    return change
