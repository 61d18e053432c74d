"""Tasks: functions registered to run as jobs, and the ways to enqueue a call.

`Task[P, R]` has the handler's signature, so that a type checker finds a wrong argument of `enqueue`
where it is written; at run time `Signature` checks the same before anything is stored.
"""

import inspect
from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from math import inf
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Protocol, TypeVar, Unpack

from mutirao.errors import InvalidArguments, InvalidTask
from mutirao.model.graphs.graph import Reference
from mutirao.model.jobs.expiry import ending_at
from mutirao.model.jobs.graph_flags import KEEPS_RESULT, flags_of
from mutirao.model.jobs.job import Keep, NewJob
from mutirao.model.jobs.retry import RetryPolicy
from mutirao.model.keys.supersede import Supersede
from mutirao.model.keys.uniqueness import Unique
from mutirao.model.limits.limit_values import Whose
from mutirao.tasks.around.hooks import Hooks, Inside
from mutirao.tasks.defaults import AttemptTerms, Defaults
from mutirao.tasks.handle import NOT_GIVEN, Handle, given, kept_result
from mutirao.tasks.options import CallTerms, TaskOptions, template_of
from mutirao.tasks.other_libraries import OtherWords
from mutirao.tasks.probing import Probed
from mutirao.tasks.signatures.signature import Signature

if TYPE_CHECKING:
    from mutirao.model.jobs.records import DeadJob

P = ParamSpec("P")
R = TypeVar("R", covariant=True)
DeadHandler = TypeVar("DeadHandler", bound=Callable[..., Any])


class TaskApp(Protocol):
    """The application, as tasks see it: it receives their jobs, and has their defaults."""

    defaults: Defaults
    undecided: "dict[str, Task[..., Any]]"  # whose signatures are not completely checked

    _surroundings: Hooks

    def submit(self, job: NewJob, conn: object | None) -> Handle[Any]:
        """Check a job and write it, through `conn` or in a transaction of its own."""
        ...

    async def asubmit(self, job: NewJob, conn: object | None) -> Handle[Any]:
        """Check a job and write it from a coroutine, through an asynchronous connection."""
        ...

    def register(self, task: "Task[..., Any]") -> None:
        """Register a task; raise InvalidTask if its name is taken."""
        ...


class Task(Probed, OtherWords, Generic[P, R]):
    """A registered function with its options. Calling it calls the function, without a job."""

    taken = "two tasks are called {0!r} ({1} and {2}); name one of them: @app.task(name=…)"

    def __init__(
        self,
        app: TaskApp,
        function: Callable[..., Any],
        name: str,
        options: TaskOptions,
        unannotated: Any = Any,
    ) -> None:
        """Set the parts; `unannotated` is the type of parameters that have no annotation."""
        _check_function(function, name)
        self._app = app
        self.function = function
        self.name = name
        self.options = options
        self.surroundings = app._surroundings
        self.signature = Signature(function, name, app._surroundings.factories, unannotated)
        rule = options.unique.supersede
        if rule is not None:
            _check_rule(rule, name)
            self.signature.require(
                rule.by, "supersede's by, by which kinds of jobs are distinguished"
            )
            self.signature.distinguished_by.append(rule.by)
        if options.fair_by is not None:
            _check_argument("fair_by", options.fair_by, self.signature, name)
        for limit in options.limits:
            if limit.by is not None:
                _check_argument("a limit's by", limit.by, self.signature, name)
        self.is_coroutine = inspect.iscoroutinefunction(function)
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
        if options.process and self.__name__ == "<lambda>":
            raise InvalidTask(
                f"task {name!r} is a lambda and process=True; another process finds a function by"
                " its name, so define it with def, at module level"
            )

    def __repr__(self) -> str:
        return f"<Task {self.name!r} of {self.__module__}.{self.__qualname__}>"

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function itself, without a job. If it takes a `Job`, use `.function` instead.

        Nothing is provided: give the arguments that factories would provide.
        """
        if self.signature.wants_job:
            raise TypeError(
                f"{self.name} takes the Job it runs as; call {self.name}.function(job, …) in a"
                " test, or enqueue it"
            )
        if left_out := self.signature.left_out(args, kwargs):
            raise TypeError(
                f"{self.name} is provided with {', '.join(left_out)} where it runs as a job; in a"
                " direct call, give it"
            )
        result: R = self.function(*args, **kwargs)
        return result

    def enqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """Enqueue a call in a short transaction of its own, and return its handle.

        Raises:
            InvalidJob: an argument or option does not fit; nothing was written.
        """
        return self._plain.enqueue(*args, **kwargs)

    async def aenqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """Enqueue a call from a coroutine, in a short transaction, and return its handle.

        Raises:
            InvalidJob: an argument or option does not fit; nothing was written.
        """
        return await self._plain.aenqueue(*args, **kwargs)

    def job(self, /, *args: P.args, **kwargs: P.kwargs) -> NewJob:
        """Return the call as a value, for `app.enqueue_many`; nothing is written.

        Raises:
            InvalidArguments: the arguments do not fit the handler.
        """
        return self._plain.job(*args, **kwargs)

    @cached_property
    def _plain(self) -> "Call[P, R]":
        return self.using()

    def using(self, *, conn: object = NOT_GIVEN, **options: Unpack[CallTerms]) -> "Call[P, R]":
        """Return this task with options for one call.

        Parameters:
            conn: the connection or session whose transaction the job joins; it is never committed.
            options: the fields of `CallTerms`: queue, priority, run_at, delay, key, …

        Raises:
            InvalidJob: an option is out of range.
            TypeError: an option is unknown.
            UnsupportedConnection: `conn` is None.
        """
        template = template_of(self.name, self.options, options)
        return Call(self._app, self.signature, template, given(conn), self.options.findable)

    def on_dead(self, handler: DeadHandler) -> DeadHandler:
        """Register a function that runs, as a job of its own, when a job of this task dies.

        It receives a `DeadJob` (after a `Job`, if one is annotated). It uses the task's queue, and
        the application's default retries; if its job dies, no further job is started.

        Raises:
            InvalidTask: the task has a handler already, or the function cannot be a task.
        """
        if self.dead_handler is not None:
            raise InvalidTask(f"task {self.name!r} has an on_dead handler already; give it one")
        options = replace(
            self.options, process=False, retry=None, max_attempts=None, unique=Unique(),
            findable=False, keep_result=None, limits=(), fair_by=None, stall_timeout=None,
            expires=None,
        )  # fmt: skip
        from mutirao.model.jobs.records import DeadJob

        name = f"{self.name}.on_dead"
        task: Task[..., Any] = Task(self._app, handler, name, options, unannotated=DeadJob)
        self._app.register(task)
        self.dead_handler = task
        return handler

    def join(self, surroundings: Hooks) -> None:
        """Use other hooks and factories from now on: those of the application that includes it."""
        self.surroundings = surroundings
        self.signature.join(surroundings.factories)
        self.__dict__.pop("inside", None)

    @property
    def defaults(self) -> Defaults:
        """The application's defaults for tasks without options of their own."""
        return self._app.defaults

    def terms(self, defaults: Defaults | None = None) -> AttemptTerms:
        """Return the retry policy and timeout of its attempts.

        `defaults`: those of a worker, which replace the application's.
        """
        usual = self._app.defaults
        return (usual if defaults is None else defaults.over(usual)).of(self.options)

    def retry_of(self, args: str, usual: RetryPolicy) -> RetryPolicy:
        """Return the retry policy of a job with these arguments; `usual` is that of the task."""
        return usual

    def keeper(self, metadata: str | None) -> Keep | None:
        """Return the conversion of results for the store, if this task or a later step needs it.

        A result that a later step needs is kept as long as the graph.
        """
        if metadata is None and not self.keeps_results:
            return None
        keep_for = inf if KEEPS_RESULT in flags_of(metadata) else self.options.keep_result
        return None if keep_for is None else lambda value: kept_result(self.name, value, keep_for)

    @cached_property
    def inside(self) -> Inside:
        """The call of the handler inside its hooks and factories.

        Raises:
            InvalidTask: a parameter of the handler cannot be provided.
        """
        wanted, factories = self.signature.provided, self.surroundings.factories
        plan = factories.plan(wanted, self.name, loop=self.is_coroutine)
        return Inside(self.surroundings, wanted, plan)

    def within(self, surroundings: Hooks) -> "Task[P, R]":
        """Return this task with other hooks; for another process, which may not know all."""
        task = copy(self)
        task.__dict__.pop("inside", None)
        task.surroundings = surroundings
        task.signature = self.signature.given_by(surroundings.factories)
        return task

    def decide(self) -> bool:
        """Check what is known when the task is registered; return whether that is all of it.

        It leaves parameters that a factory may provide, and annotations that may name types which
        are defined further down.

        Raises:
            InvalidTask: its jobs could never run.
        """
        return self.signature.decide(with_result=self.keeps_results)

    def check_signature(self) -> None:
        """Raise InvalidTask if calls could not be written, or results not read."""
        self.signature.check(with_result=self.keeps_results)

    def check(self) -> None:
        """Raise InvalidTask if this task's jobs, or the job of its `on_dead`, could not run."""
        self.check_signature()
        _ = self.inside
        if self.dead_handler is None:
            return
        from mutirao.model.jobs.records import DeadJob

        try:
            self.announce_death(DeadJob(0, self.name, self.options.queue, {}, 1, None, None))
        except InvalidArguments as unfit:
            raise InvalidTask(
                f"the on_dead handler of {self.name!r} must take one DeadJob (and, first, a Job"
                f" if it wants one): {unfit}"
            ) from unfit

    def announce_death(self, dead: "DeadJob") -> NewJob | None:
        """Return the job for the `on_dead` handler, or None if there is no handler."""
        if self.dead_handler is None:
            return None
        call = self.dead_handler.using(queue=dead.queue, tenant=dead.tenant, group=dead.group)
        args = self.dead_handler.signature.encode((dead,), {})
        return replace(call.template, args=args, on_dead_of=dead.id)


Check = Callable[[Task[..., Any]], None]


def check_each(tasks: Iterable[Task[..., Any]], check: Check = Task.check) -> None:
    """Check each of these tasks.

    Raises:
        InvalidTask: some tasks cannot work; all of them are named.
    """
    refused = refusals(tasks, check)
    if len(refused) > 1:
        named = "; ".join(f"({n}) {each}" for n, each in enumerate(refused, 1))
        raise InvalidTask(f"{len(refused)} tasks cannot work as they are: {named}")
    for each in refused:
        raise each


def refusals(tasks: Iterable[Task[..., Any]], check: Check = Task.check) -> list[InvalidTask]:
    """Return why some of these tasks cannot work."""
    refused = []
    for task in tasks:
        try:
            check(task)
        except InvalidTask as each:
            refused.append(each)
    return refused


def _check_rule(rule: object, name: str) -> None:
    if not isinstance(rule, Supersede):
        raise InvalidTask(f"supersede of task {name!r} is {rule!r}; give Supersede(by, rules)")


def _check_argument(what: str, by: object, signature: Signature, name: str) -> None:
    if isinstance(by, str) and not signature.takes(by) and by in Whose._fields:
        return  # the job's own option
    if not isinstance(by, str) or not signature.takes(by):
        raise InvalidTask(
            f"{what} of task {name!r} is {by!r}, which is no argument of it; name the one whose"
            " values are distinguished, or say tenant or group, the options of a call"
        )
    signature.distinguished_by.append(by)


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
    """Return the results that an argument refers to, as a tree; `...` if it is a plain value."""
    if isinstance(value, Reference):
        return value.of
    trees = []
    # With a limit: a value may contain itself, and is refused for that later.
    for each in value if isinstance(value, list | tuple) and deepest else ():
        if (tree := _referred(each, deepest - 1)) is ...:
            return ...
        trees.append(tree)
    return tuple(trees) or ...


@dataclass(frozen=True, slots=True)
class Call(Generic[P, R]):
    """A task with the options of one call; made by `task.using(...)`."""

    app: TaskApp
    signature: Signature
    template: NewJob
    conn: object | None
    findable: bool = False

    def enqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """Enqueue the call, in `conn`'s transaction or a short one of its own; return its handle.

        Raises:
            InvalidJob: an argument or option does not fit; nothing was written.
            DuplicateJob: another job has the key, and `on_conflict` is "error"; nothing was
                written.
            UnsupportedConnection: `conn` is not one of the accepted kinds.
        """
        return self.app.submit(self.job(*args, **kwargs), self.conn)

    async def aenqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """Enqueue the call from a coroutine, through an asynchronous `conn` if given.

        Raises:
            InvalidJob: an argument or option does not fit; nothing was written.
            DuplicateJob: another job has the key, and `on_conflict` is "error"; nothing was
                written.
            UnsupportedConnection: `conn` is not one of the accepted kinds.
        """
        return await self.app.asubmit(self.job(*args, **kwargs), self.conn)

    def job(self, /, *args: P.args, **kwargs: P.kwargs) -> NewJob:
        """Return the call as a value, for `app.enqueue_many`; nothing is written.

        Raises:
            InvalidArguments: the arguments do not fit the handler.
            InvalidTask: an open part of the task's signature turned out invalid.
        """
        if self.app.undecided:
            self._decide()
        template = self.template
        if template.expires is not None:
            template = ending_at(template, datetime.now(UTC))
        try:
            payload = self.signature.encode(args, kwargs)
        except InvalidArguments:
            payload, refers = self.signature.encode_around(args, kwargs, _referred)
            if not refers:
                raise
            return replace(template, args=payload, refers=refers)
        if self.findable:
            fingerprint = self.signature.fingerprint(payload)
            return replace(template, args=payload, fingerprint=fingerprint)
        return template.with_args(payload)

    def _decide(self) -> None:
        """Check the open parts of this task's signature, and not of others."""
        task = self.app.undecided.get(self.template.task)
        if task is not None:
            task.check_signature()
            self.app.undecided.pop(task.name, None)
