"""Tasks: functions registered to run as jobs, and the ways to enqueue a call of one.

`Task[P, R]` carries the handler's signature, so that a type checker sees a wrong argument of
`enqueue` where it is written; at run time `Signature` says the same before anything is stored.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property
from math import inf
from typing import Any, Generic, Literal, ParamSpec, Protocol, TypeVar

from mutirao.arguments import Signature
from mutirao.errors import InvalidArguments, InvalidJob, InvalidLimit, InvalidTask
from mutirao.graph import Reference
from mutirao.handle import Handle
from mutirao.job import DEFAULT_QUEUE, Keep, NewJob
from mutirao.limit import Limit
from mutirao.marks import KEEPS, marks
from mutirao.records import DeadJob
from mutirao.results import kept
from mutirao.retry import Retry, RetryPolicy, seconds
from mutirao.supersede import Supersede
from mutirao.unique import OnConflict, Unique

Conflict = OnConflict | Literal["keep", "replace", "rerun", "error"]
P = ParamSpec("P")
R = TypeVar("R", covariant=True)
DeadHandler = TypeVar("DeadHandler", bound=Callable[..., Any])


class Desk(Protocol):
    """Where tasks hand in their jobs: the application."""

    def submit(self, job: NewJob, conn: object | None) -> Handle:
        """Check a job and write it, through `conn` or in a transaction of its own."""
        ...

    async def asubmit(self, job: NewJob, conn: object | None) -> Handle:
        """As `submit`, for asynchronous connections."""
        ...

    def register(self, task: "Task[..., Any]") -> None:
        """Add a task. Raises InvalidTask if its name is taken."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOptions:
    """A task's own settings, where a call does not say otherwise. `timeout` is in seconds."""

    queue: str = DEFAULT_QUEUE
    priority: int = 0
    retry: RetryPolicy = field(default_factory=Retry.exponential)
    timeout: float | None = None
    process: bool = False
    tags: tuple[str, ...] = ()
    unique: Unique = field(default_factory=Unique)
    findable: bool = False
    keep_result: float | None = None  # seconds, inf: as long as the job's history
    limits: tuple[Limit, ...] = ()
    fair_by: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.retry, RetryPolicy):
            raise InvalidTask(f"retry is {self.retry!r}; give a policy, as in Retry.exponential(5)")


class Task(Generic[P, R]):
    """A registered function with its options. Calling it calls the function, here and now."""

    def __init__(
        self,
        desk: Desk,
        function: Callable[..., Any],
        name: str,
        options: TaskOptions,
        unannotated: Any = Any,
    ) -> None:
        """`unannotated` is the type of parameters that have no annotation."""
        _check_function(function, name)
        self._desk = desk
        self.function = function
        self.name = name
        self.options = options
        self.signature = Signature(function, name, unannotated)
        rule = options.unique.supersede
        if rule is not None:
            _check_rule(rule, name)
            self.signature.require(rule.by, "supersede's by, which tells the kinds of jobs apart")
        if options.fair_by is not None:
            _check_argument("fair_by", options.fair_by, self.signature, name)
        for limit in options.limits:
            if limit.by is not None:
                _check_argument("a limit's by", limit.by, self.signature, name)
        self.is_coroutine = inspect.iscoroutinefunction(function)
        self.most_attempts = options.retry.most_attempts
        self.keeps_results = options.keep_result is not None
        self.dead_handler: Task[..., Any] | None = None
        self.__doc__ = function.__doc__
        self.__name__ = getattr(function, "__name__", name)
        self.__qualname__ = getattr(function, "__qualname__", name)
        self.__module__ = function.__module__
        if options.process and self.is_coroutine:
            raise InvalidTask(
                f"task {name!r} is a coroutine and process=True; a process runs a plain function,"
                " so drop `async` or process=True"
            )

    def __repr__(self) -> str:
        return f"<Task {self.name!r} of {self.__module__}.{self.__qualname__}>"

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function itself, without a job. One that wants a `Job` is `.function`."""
        if self.signature.wants_job:
            raise TypeError(
                f"{self.name} takes the Job it runs as; call {self.name}.function(job, …) in a"
                " test, or enqueue it"
            )
        result: R = self.function(*args, **kwargs)
        return result

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Handle:
        """Enqueue a call in a short transaction of its own.

        Raises:
            InvalidJob: an argument or option does not fit; nothing was written.
        """
        return self._plain.enqueue(*args, **kwargs)

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> Handle:
        """As `enqueue`, from a coroutine."""
        return await self._plain.aenqueue(*args, **kwargs)

    def job(self, *args: P.args, **kwargs: P.kwargs) -> NewJob:
        """Return the call as a value, for `app.enqueue_many`."""
        return self._plain.job(*args, **kwargs)

    @cached_property
    def _plain(self) -> "Call[P]":
        return self.using()

    def using(
        self,
        *,
        conn: object | None = None,
        queue: str | None = None,
        priority: int | None = None,
        run_at: datetime | None = None,
        delay: float | timedelta | None = None,
        max_attempts: int | None = None,
        timeout: float | timedelta | None = None,
        key: str | None = None,
        on_conflict: Conflict | None = None,
        unique_for: float | timedelta | None = None,
        scope: str | None = None,
        debounce_limit: float | timedelta | None = None,
        tags: tuple[str, ...] | list[str] = (),
        metadata: Mapping[str, Any] | None = None,
        traceparent: str | None = None,
    ) -> "Call[P]":
        """Return this task with options for one call.

        Parameters:
            conn: the connection or session whose transaction the job joins; never committed.
            queue: instead of the task's.
            priority: smaller runs first; -32768 to 32767.
            run_at: not before this aware datetime.
            delay: not before so many seconds (or a `timedelta`) from now; instead of `run_at`.
            max_attempts: executions in all, instead of the retry policy's.
            timeout: seconds (or a `timedelta`) an attempt may take.
            key: at most one job has it until it has finished; 1 to 200 characters.
            on_conflict: if another one has the key, "keep" that (as unless given), "replace" it if
                it waits, "rerun" after it if it runs, or raise an "error".
            unique_for: seconds (or a `timedelta`) that it holds the key after it has finished.
            scope: a name whose users share keys, instead of the task's jobs in the queue.
            debounce_limit: seconds (or a `timedelta`) that replacing may put off the first.
            tags: added to the task's.
            metadata: any JSON object; the handler finds it in `job.metadata`.
            traceparent: the W3C trace context of the caller.
        """
        options = self.options
        template = NewJob(
            task=self.name,
            queue=options.queue if queue is None else queue,
            priority=options.priority if priority is None else priority,
            run_at=run_at,
            delay=length_of_time("delay", delay),
            max_attempts=max_attempts,
            timeout=length_of_time("timeout", timeout),
            key=key,
            tags=(*options.tags, *several_tags(tags)),
            metadata={} if metadata is None else copy(metadata),
            traceparent=traceparent,
            unique=self._unique(key, (on_conflict, unique_for, scope, debounce_limit)),
            fair_by=options.fair_by,
        )
        return Call(self._desk, self.signature, template, conn, options.findable)

    def _unique(self, key: str | None, given: tuple[Any, Any, Any, Any]) -> Unique | None:
        if key is not None:
            return uniqueness(self.options.unique, *given)
        if any(each is not None for each in given):
            raise InvalidJob(
                "on_conflict, unique_for, scope and debounce_limit say what a key means, and no"
                " key is given; give one: key=…"
            )
        return None

    def on_dead(self, handler: DeadHandler) -> DeadHandler:
        """Register a function that runs, as a job of its own, when a job of this task dies.

        It takes a `DeadJob` (and, first, a `Job` if annotated). It has the task's queue and its
        own retries, and when it dies itself nothing further is started.

        Raises:
            InvalidTask: there is one already, or it is not a plain function or coroutine.
        """
        if self.dead_handler is not None:
            raise InvalidTask(f"task {self.name!r} has an on_dead handler already; give it one")
        options = replace(
            self.options, process=False, retry=Retry.exponential(), unique=Unique(),
            findable=False, keep_result=None, limits=(), fair_by=None,
        )  # fmt: skip
        name = f"{self.name}.on_dead"
        task: Task[..., Any] = Task(self._desk, handler, name, options, unannotated=DeadJob)
        self._desk.register(task)
        self.dead_handler = task
        return handler

    def keeper(self, metadata: str | None) -> Keep | None:
        """Return what turns a result into what is stored, if this task or a later step wants it.

        What a later step needs is kept as long as the graph.
        """
        if metadata is None and not self.keeps_results:
            return None
        keep_for = inf if KEEPS in marks(metadata) else self.options.keep_result
        return None if keep_for is None else lambda value: kept(self.name, value, keep_for)

    def check(self) -> None:
        """Raise InvalidTask if this task's jobs, or the job of its `on_dead`, could not run.

        Not sooner than this can annotations name what is defined further down.
        """
        self.signature.check(with_result=self.keeps_results)
        try:
            self.announce_death(DeadJob(0, self.name, self.options.queue, {}, 1, None, None))
        except InvalidArguments as unfit:
            raise InvalidTask(
                f"the on_dead handler of {self.name!r} must take one DeadJob (and, first, a Job"
                f" if it wants one): {unfit}"
            ) from unfit

    def announce_death(self, dead: DeadJob) -> NewJob | None:
        """Return the job that tells the `on_dead` handler, or None if there is no handler."""
        if self.dead_handler is None:
            return None
        template = self.dead_handler.using(queue=dead.queue).template
        args = self.dead_handler.signature.encode((dead,), {})
        return replace(template, args=args, on_dead_of=dead.id)


def length_of_time(what: str, value: float | timedelta | None) -> float | None:
    """Return seconds, given as a number or a `timedelta`. Raises InvalidJob for anything else."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float | timedelta):
        raise InvalidJob(f"{what} is {value!r}; give seconds as a number, or a timedelta")
    return seconds(value)


def uniqueness(
    usual: Unique,
    on_conflict: Conflict | None,
    unique_for: float | timedelta | None,
    scope: str | None,
    debounce_limit: float | timedelta | None,
) -> Unique:
    """Return what a key means: as usual, but for what is given. Raises InvalidJob."""
    known = list(OnConflict)
    if on_conflict is not None and on_conflict not in known:
        raise InvalidJob(f"on_conflict is {on_conflict!r}; give one of {', '.join(known)}")
    given: dict[str, Any] = {
        "on_conflict": on_conflict and OnConflict(on_conflict),
        "unique_for": length_of_time("unique_for", unique_for),
        "scope": scope,
        "debounce_limit": length_of_time("debounce_limit", debounce_limit),
    }
    apart = (given["on_conflict"], given["unique_for"], given["debounce_limit"])
    if usual.supersede is not None and apart != (None, None, None):
        raise InvalidJob(
            "the task has a supersede rule, which says what a key means; leave on_conflict,"
            " unique_for and debounce_limit out"
        )
    return replace(usual, **{name: value for name, value in given.items() if value is not None})


def several_limits(limit: Limit | Iterable[Limit]) -> tuple[Limit, ...]:
    """Return a limit, or several, as a tuple. Raises InvalidLimit for anything else."""
    limits = (limit,) if isinstance(limit, Limit) or not isinstance(limit, Iterable) else limit
    chosen = tuple(limits)
    for each in chosen:
        if not isinstance(each, Limit):
            raise InvalidLimit(f"limit is {each!r}; give a Limit, such as Limit(10), or several")
    return chosen


def several_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Return tags as a tuple. Raises InvalidJob for a single text, whose letters are no tags."""
    if isinstance(tags, str) or not isinstance(tags, Iterable):
        raise InvalidJob(f"tags are {tags!r}; give a list, such as [{tags!r}]")
    return tuple(tags)


def _check_rule(rule: object, name: str) -> None:
    if not isinstance(rule, Supersede):
        raise InvalidTask(f"supersede of task {name!r} is {rule!r}; give Supersede(by, rules)")


def _check_argument(what: str, by: object, signature: Signature, name: str) -> None:
    if not isinstance(by, str) or not signature.takes(by):
        raise InvalidTask(
            f"{what} of task {name!r} is {by!r}, which is no argument of it; name the one whose"
            " values are told apart"
        )


def _check_function(function: object, name: str) -> None:
    if isinstance(function, Task):
        found = f"{function!r}; put the decorators on different functions"
    elif not callable(function):
        found = f"{function!r}, which cannot be called; give a function"
    elif inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        found = "a generator function, whose body nobody would run; drop the yield"
    elif not name:
        found = f"{function!r}, which has no name; give it one: app.task(name=…)"
    else:
        return
    raise InvalidTask(f"the task {name!r} is {found}")


def _referred(value: object, deepest: int = 50) -> Any:
    """Return what results an argument stands for, as a tree; `...` if it stands for none."""
    if isinstance(value, Reference):
        return value.of
    trees = []
    # Not for ever: what is here may hold itself, and is to be refused for that.
    for each in value if isinstance(value, list | tuple) and deepest else ():
        if (tree := _referred(each, deepest - 1)) is ...:
            return ...
        trees.append(tree)
    return tuple(trees) or ...


@dataclass(frozen=True, slots=True)
class Call(Generic[P]):
    """A task with the options of one call; made by `task.using(...)`."""

    desk: Desk
    signature: Signature
    template: NewJob
    conn: object | None
    findable: bool = False

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Handle:
        """Enqueue the call, in `conn`'s transaction or a short one of its own.

        Raises:
            InvalidJob: an argument or option does not fit; nothing was written.
            DuplicateJob: another job has the key, and `on_conflict` is "error"; likewise.
            UnsupportedConnection: `conn` is not one of the accepted kinds.
        """
        return self.desk.submit(self.job(*args, **kwargs), self.conn)

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> Handle:
        """As `enqueue`, for asynchronous connections and sessions."""
        return await self.desk.asubmit(self.job(*args, **kwargs), self.conn)

    def job(self, *args: P.args, **kwargs: P.kwargs) -> NewJob:
        """Return the call as a value, for `app.enqueue_many`."""
        try:
            payload = self.signature.encode(args, kwargs)
        except InvalidArguments:
            payload, refers = self.signature.encode_around(args, kwargs, _referred)
            if not refers:
                raise
            return replace(self.template, args=payload, refers=refers)
        if self.findable:
            fingerprint = self.signature.fingerprint(payload)
            return replace(self.template, args=payload, fingerprint=fingerprint)
        return self.template.with_args(payload)
