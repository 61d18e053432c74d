"""What users hold of schedules: `@app.schedule(…)`, and `app.schedules` to look and to order.

Orders have an asynchronous face, which does it, and a synchronous one, which waits for that one.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, Unpack, overload

from mutirao import timetable
from mutirao.checks import check_job, check_text
from mutirao.cron import check_times
from mutirao.engine.portal import Portal
from mutirao.errors import InvalidSchedule
from mutirao.handle import Handle, Results
from mutirao.job import Job, NewJob
from mutirao.ports import Store
from mutirao.schedule import (
    MAX_SCHEDULE_NAME,
    Amend,
    Amendment,
    Schedule,
    ScheduleRecord,
    ScheduleState,
    Standing,
    Terms,
)
from mutirao.task import Task

P = ParamSpec("P")
R = TypeVar("R")
Order = Callable[[Standing, str], Amendment]


class Office(Results, Protocol):
    """The application, as schedules know it."""

    store: Store

    def task_named(self, name: str) -> Task[..., Any]:
        """Return a registered task. Raises UnknownTask."""
        ...


class Schedules:
    """The schedules of an application's database.

    Parameters:
        register: makes a task of a function.
        max_payload: the most bytes of JSON a job's arguments may take.
    """

    def __init__(
        self,
        app: Office,
        register: Callable[[Callable[..., Any]], Task[..., Any]],
        portal: Portal,
        max_payload: int,
    ) -> None:
        self._app, self._register, self._portal = app, register, portal
        self._max_payload = max_payload
        self._in_code: dict[str, tuple[Schedule, Task[..., Any], Mapping[str, Any]]] = {}

    # In code.

    def declare(
        self,
        cron: str | None = None,
        /,
        *,
        name: str | None = None,
        args: Mapping[str, Any] | None = None,
        **terms: Unpack[Terms],
    ) -> "_Declaring":
        """Let a task run by the clock: `@app.schedule("30 3 * * *", timezone="Europe/Berlin")`.

        Stands above `@app.task`, or alone, which makes a task of the function. When a worker with
        this code starts, it writes the schedule down. The arguments are checked then.

        Parameters:
            cron: five fields (or six, seconds first), in local time; or `every` instead.
            name: what the schedule is called; as the task unless given.
            args: the arguments of each call, by name.
            terms: as of `put`.

        Raises:
            InvalidSchedule: it says no time, contradicts itself, or the name is taken.
        """
        # Who makes the jobs is not known yet, but when can be held against the calendar now.
        schedule = _schedule(name or "?", NewJob(task="?"), cron, terms)
        check_times(schedule)
        return _Declaring(self, schedule, name, dict(args or {}))

    def declared(self) -> tuple[Schedule, ...]:
        """Return the schedules in the code, with their jobs.

        Raises:
            InvalidJob: the arguments of one do not fit its task.
        """
        return tuple(
            self._checked(replace(schedule, job=task.job(**args)))
            for schedule, task, args in self._in_code.values()
        )

    def add(
        self, schedule: Schedule, name: str | None, target: Any, args: Mapping[str, Any]
    ) -> Task[..., Any]:
        """Keep a schedule that the code declares of a task or a function; return the task."""
        task = target if isinstance(target, Task) else self._register(target)
        chosen = name or task.name
        if chosen in self._in_code:
            raise InvalidSchedule(
                f"two schedules are called {chosen!r}; give one of them a name:"
                " @app.schedule(…, name=…)"
            )
        self._in_code[chosen] = (replace(schedule, name=chosen), task, args)
        return task

    # At run time.

    async def aput(
        self, name: str, job: NewJob, cron: str | None = None, **terms: Unpack[Terms]
    ) -> ScheduleState:
        """Make a schedule, or give the one of that name other terms; return how it stands.

        Putting the same again changes nothing. A paused one stays paused, and the next tick stays
        unless `cron`, `every` or `timezone` changed.

        Parameters:
            name: up to 200 characters.
            job: what each tick makes: `task.job(…)`, or `task.using(…).job(…)` with options.
            cron: five fields (or six, seconds first), in local time; or `every` instead.
            every: a `timedelta`, or seconds, between two ticks.
            timezone: of the cron line, such as America/Sao_Paulo; UTC unless given.
            catch_up: of ticks that nobody was there for: `last` (the default), `none`, `all`.
            catch_up_limit: with `all`, the most jobs made so; 100 unless given.
            overlap: while the last job is live: `allow` (the default), `skip`, or `after`, with
                which the next tick counts from that job's end.
            jitter: a `timedelta`, or seconds; jobs are due up to so long after their tick.
            until: no tick after this aware datetime.
            max_runs: no tick after so many have made jobs.

        Raises:
            InvalidSchedule: it says no time, contradicts itself, or would never tick.
            InvalidJob: the job does not fit.
            UnknownTask: its task is not registered here.
        """
        schedule = self._checked(_schedule(name, job, cron, terms))
        return await self._amend(name, partial(timetable.put, schedule=schedule))

    async def achange(
        self, name: str, *, job: NewJob | None = None, cron: str | None = None,
        **terms: Unpack[Terms],
    ) -> ScheduleState:  # fmt: skip
        """Give a schedule other terms, as of `put`; what is not given stays.

        Of one that the code declares, the change lasts until the code says something else.

        Raises:
            UnknownSchedule: there is none of that name.
            InvalidSchedule, InvalidJob, UnknownTask: as `put`.
        """
        given: dict[str, Any] = _terms(terms)
        if cron is not None:
            given["cron"] = cron
        if job is not None:
            _check_is_job(name, job)
            self._check_job(job)
            given["job"] = job
        return await self._amend(name, partial(timetable.change, name=name, terms=given))

    async def alist(self) -> tuple[ScheduleRecord, ...]:
        """List the schedules by name, with their next ticks and how their last jobs went."""
        return tuple(await self._app.store.schedules())

    async def apause(self, name: str) -> ScheduleState:
        """Let a schedule make no more jobs until it is resumed. Raises UnknownSchedule."""
        return await self._order(name, timetable.pause)

    async def aresume(self, name: str) -> ScheduleState:
        """Let it tick again; what passed meanwhile is not made up for. Raises UnknownSchedule."""
        return await self._order(name, timetable.resume)

    async def aremove(self, name: str) -> None:
        """Remove a schedule; its jobs stay. One that is in the code comes back with a worker.

        Raises:
            UnknownSchedule: there is none of that name.
        """
        await self._app.store.amend_schedule(name, partial(timetable.remove, name=name))

    async def arun_now(self, name: str) -> Handle:
        """Make a job at once, beside the ticks, paused or not.

        Raises:
            UnknownSchedule: there is none of that name.
            WrongState: its last job is live, and `overlap` is not `allow`.
        """
        done = await self._app.store.amend_schedule(name, partial(timetable.run_now, name=name))
        job = _found(done.state).schedule.job
        return Handle(done.jobs[0], job.task, job.queue, results=self._app)

    def put(
        self, name: str, job: NewJob, cron: str | None = None, **terms: Unpack[Terms]
    ) -> ScheduleState:
        """As `aput`."""
        return self._portal.call(partial(self.aput, name, job, cron, **terms))

    def change(
        self, name: str, *, job: NewJob | None = None, cron: str | None = None,
        **terms: Unpack[Terms],
    ) -> ScheduleState:  # fmt: skip
        """As `achange`."""
        return self._portal.call(partial(self.achange, name, job=job, cron=cron, **terms))

    def list(self) -> tuple[ScheduleRecord, ...]:
        """As `alist`."""
        return self._portal.call(self.alist)

    def pause(self, name: str) -> ScheduleState:
        """As `apause`."""
        return self._portal.call(self.apause, name)

    def resume(self, name: str) -> ScheduleState:
        """As `aresume`."""
        return self._portal.call(self.aresume, name)

    def remove(self, name: str) -> None:
        """As `aremove`."""
        self._portal.call(self.aremove, name)

    def run_now(self, name: str) -> Handle:
        """As `arun_now`."""
        return self._portal.call(self.arun_now, name)

    async def _order(self, name: str, order: Order) -> ScheduleState:
        return await self._amend(name, lambda standing: order(standing, name))

    async def _amend(self, name: str, amend: Amend) -> ScheduleState:
        return _found((await self._app.store.amend_schedule(name, amend)).state)

    def _checked(self, schedule: Schedule) -> Schedule:
        check_text("schedule's name", schedule.name, MAX_SCHEDULE_NAME)
        self._check_job(schedule.job)
        check_times(schedule)
        return schedule

    def _check_job(self, job: NewJob) -> None:
        self._app.task_named(job.task)
        check_job(job, self._max_payload)
        if job.unique is not None:
            raise InvalidSchedule(
                f"the job has the key {job.key!r}, but each tick makes a job of its own; leave the"
                ' key out, and say with overlap="skip" or "after" if runs must not overlap'
            )


class _Declaring:
    """What `@app.schedule(…)` returns: takes a task, or a function that becomes one."""

    def __init__(
        self, schedules: Schedules, schedule: Schedule, name: str | None, args: Mapping[str, Any]
    ) -> None:
        self._schedules, self._schedule, self._name, self._args = schedules, schedule, name, args

    @overload
    def __call__(self, target: Task[P, R], /) -> Task[P, R]: ...
    @overload
    def __call__(self, target: Callable[Concatenate[Job, P], R], /) -> Task[P, R]: ...
    @overload
    def __call__(self, target: Callable[P, R], /) -> Task[P, R]: ...
    def __call__(self, target: Any, /) -> Task[..., Any]:
        return self._schedules.add(self._schedule, self._name, target, self._args)


def _schedule(name: str, job: NewJob, cron: str | None, terms: Terms) -> Schedule:
    _check_is_job(name, job)
    return Schedule(name=name, job=job, cron=cron, **_terms(terms))


def _check_is_job(name: str, job: object) -> None:
    if not isinstance(job, NewJob):
        raise InvalidSchedule(f"the job of schedule {name!r} is {job!r}; give task.job(…)")


def _terms(terms: Terms) -> dict[str, Any]:
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
        pass  # said below, as for what is no number
    raise InvalidSchedule(f"{what} is {value!r}; give a timedelta, or seconds as a number")


def _found(state: ScheduleState | None) -> ScheduleState:
    if state is None:
        raise AssertionError("the schedule was removed by what cannot remove it")
    return state
