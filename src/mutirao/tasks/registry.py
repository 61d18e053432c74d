"""The tasks of an application by name, and `@app.task`, which registers them."""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, Unpack, overload

from mutirao.errors import InvalidTask, UnknownTask
from mutirao.model.jobs.job import Job, NewJob
from mutirao.tasks.handle import NOT_GIVEN
from mutirao.tasks.options import TaskOptions, TaskTerms
from mutirao.tasks.task import Task, TaskApp, check_each
from mutirao.tasks.validation import check_job, check_unique

P = ParamSpec("P")
R = TypeVar("R")


class _Decorator:
    """The return value of `@app.task(...)`, which turns a function into a task."""

    def __init__(self, app: TaskApp, name: str | None, options: TaskOptions) -> None:
        self._app, self._name, self._options = app, name, options

    @overload
    def __call__(self, function: Callable[Concatenate[Job, P], R], /) -> Task[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Task[P, R]: ...
    def __call__(self, function: Callable[..., Any], /) -> Task[..., Any]:
        name = self._name or str(getattr(function, "__name__", ""))
        task: Task[..., Any] = Task(self._app, function, name, self._options)
        self._app.register(task)
        return task

    def over(self, function: Callable[..., Any] | None) -> "Task[..., Any] | _Decorator":
        """Decorate a function; return the decorator itself if there is none yet."""
        return self if function is None else self(function)


class TopicApp(TaskApp, Protocol):
    """The application, as topics see it."""

    def enqueue_many(self, jobs: Iterable[NewJob], conn: object = NOT_GIVEN) -> list[int]:
        """Write many jobs, all or none; return their ids in order."""
        ...

    async def aenqueue_many(self, jobs: Iterable[NewJob], conn: object = NOT_GIVEN) -> list[int]:
        """Write many jobs from a coroutine, all or none; return their ids in order."""
        ...


class TaskRegistry(TaskApp, Protocol):
    """The part of an application that holds its tasks."""

    undecided: dict[str, Task[..., Any]]
    _max_payload: int
    _tasks: dict[str, Task[..., Any]]

    @overload
    def task(self, function: Callable[Concatenate[Job, P], R], /) -> Task[P, R]: ...
    @overload
    def task(self, function: Callable[P, R], /) -> Task[P, R]: ...
    @overload
    def task(self, /, **options: Unpack[TaskTerms]) -> _Decorator: ...
    def task(
        self, function: Callable[..., Any] | None = None, /, **options: Unpack[TaskTerms]
    ) -> Task[..., Any] | _Decorator:
        """Register a function as a task: `@app.task` or `@app.task(queue="mail", ...)`.

        Coroutines run in the worker's event loop, plain functions in threads. A first parameter
        annotated `Job` receives the job; callers leave it out.

        Parameters:
            options: the fields of `TaskTerms`: name, queue, priority, retry, timeout, limit, …

        Raises:
            InvalidTask: the name is taken, or the function cannot be a task. An annotation that may
                name a type that is defined further down, and a parameter that a factory may
                provide, are checked by a worker, or by the first enqueue of this task.
            InvalidJob, InvalidLimit: an option is out of range.
            TypeError: an option is unknown.
        """
        return _Decorator(self, options.get("name"), TaskOptions.of(options)).over(function)

    @property
    def tasks(self) -> Mapping[str, Task[..., Any]]:
        """The registered tasks by name, `on_dead` handlers included."""
        return MappingProxyType(self._tasks)

    def task_named(self, name: str) -> Task[..., Any]:
        """Return a registered task; raise UnknownTask, with the known names, if there is none."""
        if name not in self._tasks:
            known = ", ".join(sorted(self._tasks)) or "none at all"
            raise UnknownTask(f"no task {name!r} is registered here; there are: {known}")
        return self._tasks[name]

    def register(self, task: Task[..., Any]) -> None:
        """Register a task.

        Raises:
            InvalidTask: its name is taken, or its jobs could never run.
            InvalidJob, InvalidLimit: an option is out of range, or a limit's name is taken.
        """
        if task.name in self._tasks:
            raise InvalidTask(task.taken.format(task.name, self._tasks[task.name], task))
        check_job(task.using().template, self._max_payload)
        check_unique(task.options.unique)
        self._check_conflicts(task)
        if not task.decide():
            self.undecided[task.name] = task
        self._tasks[task.name] = task

    def decide(self) -> None:
        """Check the parts of signatures that could not be checked at their registration.

        Raises:
            InvalidTask: some tasks cannot work; all of them are named.
        """
        check_each([*self.undecided.values()], Task.check_signature)
        self.undecided.clear()

    def marked(self) -> Callable[[], None]:
        """Return a function that withdraws all registrations from now on."""
        names, undecided = set(self._tasks), dict(self.undecided)

        def restore() -> None:
            for name in self._tasks.keys() - names:
                del self._tasks[name]
            self.undecided.clear()
            self.undecided.update(undecided)

        return restore

    def _check_conflicts(self, task: Task[..., Any]) -> None:
        """Raise an error if a task conflicts with the others."""
