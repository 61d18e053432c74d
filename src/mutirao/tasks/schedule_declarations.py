"""Schedules that code declares: `@app.schedule(…)`, and that of a blueprint."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any, Concatenate, ParamSpec, TypeVar, Unpack, overload

from mutirao.errors import InvalidSchedule
from mutirao.model.jobs.job import Job, NewJob
from mutirao.model.schedules.cron import check_times
from mutirao.model.schedules.schedule import Schedule, Terms
from mutirao.tasks.task import Call, Task

P = ParamSpec("P")
R = TypeVar("R")
Scheduled = Task[..., Any] | Call[..., Any]
Declared = tuple[Schedule, Scheduled, Mapping[str, Any]]


class Declarations:
    """The schedules that code declares, by name, with their tasks and arguments.

    Parameters:
        register: registers a function as a task.
    """

    def __init__(self, register: Callable[[Callable[..., Any]], Task[..., Any]]) -> None:
        self._register = register
        self._by_name: dict[str, Declared] = {}

    def __iter__(self) -> Iterator[Declared]:
        return iter(self._by_name.values())

    def marked(self) -> Callable[[], None]:
        """Return a function that withdraws all declarations from now on."""
        kept = dict(self._by_name)

        def restore() -> None:
            self._by_name = kept

        return restore

    def declare(
        self,
        cron: str | None = None,
        /,
        *,
        name: str | None = None,
        args: Mapping[str, Any] | None = None,
        **terms: Unpack[Terms],
    ) -> "Declaring":
        """Check the times of a schedule; return a decorator that declares it for a task.

        The parameters have the meaning of those of `Mutirao.schedule`.

        Raises:
            InvalidSchedule: it has no timing, or contradicts itself.
        """
        # The task is not known yet, but the times can be checked now.
        schedule = schedule_of(name or "?", NewJob(task="?"), cron, terms)
        check_times(schedule)
        return Declaring(self, schedule, name, dict(args or {}))

    def add(
        self, schedule: Schedule, name: str | None, target: Any, args: Mapping[str, Any]
    ) -> Scheduled:
        """Record a schedule that the code declares for a task, a call of one, or a function.

        Returns the task, or the call.

        Raises:
            InvalidSchedule: the name is taken.
        """
        task = target if isinstance(target, Task | Call) else self._register(target)
        chosen = name or (task.template.task if isinstance(task, Call) else task.name)
        if chosen in self._by_name:
            raise InvalidSchedule(
                f"two schedules are called {chosen!r}; give one of them a name:"
                " @app.schedule(…, name=…)"
            )
        self._by_name[chosen] = (replace(schedule, name=chosen), task, args)
        return task


class Declaring:
    """The return value of `@app.schedule(…)`: takes a task, or a function that becomes one."""

    def __init__(
        self, schedules: Declarations, schedule: Schedule, name: str | None, args: Mapping[str, Any]
    ) -> None:
        self._schedules, self._schedule, self._name, self._args = schedules, schedule, name, args

    @overload
    def __call__(self, target: Task[P, R], /) -> Task[P, R]: ...
    @overload
    def __call__(self, target: Callable[Concatenate[Job, P], R], /) -> Task[P, R]: ...
    @overload
    def __call__(self, target: Callable[P, R], /) -> Task[P, R]: ...
    def __call__(self, target: Any, /) -> Any:
        return self._schedules.add(self._schedule, self._name, target, self._args)


def schedule_of(name: str, job: NewJob, cron: str | None, terms: Terms) -> Schedule:
    """Return a schedule of these values; raise InvalidSchedule if they are invalid."""
    check_is_job(name, job)
    return Schedule(name=name, job=job, cron=cron, **in_lengths(terms))


def check_is_job(name: str, job: object) -> None:
    """Raise InvalidSchedule if a schedule does not enqueue a job."""
    if not isinstance(job, NewJob):
        raise InvalidSchedule(f"the job of schedule {name!r} is {job!r}; give task.job(…)")


def in_lengths(terms: Terms) -> dict[str, Any]:
    """Return the terms with durations as `timedelta`; raise InvalidSchedule for others."""
    given: dict[str, Any] = dict(terms)
    if given.get("every") is not None:
        given["every"] = _length("every", given["every"])
    if "jitter" in given:
        given["jitter"] = _length("jitter", given["jitter"])
    return given


def _length(what: str, value: object) -> timedelta:
    if isinstance(value, timedelta):
        return value
    try:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return timedelta(seconds=value)
    except (OverflowError, ValueError):
        pass  # raised below, as for a value that is not a number
    raise InvalidSchedule(f"{what} is {value!r}; give a timedelta, or seconds as a number")
