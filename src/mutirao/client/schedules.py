"""The schedules of an application: `@app.schedule(…)`, and `app.schedules` for the rest.

Each operation has an asynchronous face, which does the work, and a synchronous one that calls it.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any, Protocol, Required, Unpack

from mutirao.client import many
from mutirao.client.portal import Portal, blocking
from mutirao.errors import InvalidSchedule
from mutirao.model.jobs.expiry import lasting
from mutirao.model.jobs.job import NewJob
from mutirao.model.schedules import schedule_rules
from mutirao.model.schedules.cron import check_times
from mutirao.model.schedules.schedule import (
    MAX_REASON,
    MAX_SCHEDULE_NAME,
    Amend,
    Amendment,
    Schedule,
    ScheduleFacts,
    ScheduleRecord,
    ScheduleState,
    Terms,
)
from mutirao.ports import Store
from mutirao.tasks.handle import Handle, Results
from mutirao.tasks.options import refuse_unknown
from mutirao.tasks.schedule_declarations import Declarations, check_is_job, in_lengths, schedule_of
from mutirao.tasks.task import Task
from mutirao.tasks.validation import check_job, check_text

Order = Callable[[ScheduleFacts, str], Amendment]


class PutSchedule(Terms, total=False):
    """One of the schedules of `put_many`: the parameters of `put`, by name."""

    name: Required[str]
    job: Required[NewJob]
    cron: str | None


class SchedulesApp(Results, Protocol):
    """The application, as schedules see it."""

    store: Store

    def task_named(self, name: str) -> Task[..., Any]:
        """Return a registered task; raise UnknownTask if there is none of that name."""
        ...


class Schedules:
    """The schedules of an application's database.

    Parameters:
        register: registers a function as a task.
        max_payload: the maximum size of a job's arguments, in bytes of JSON.
    """

    def __init__(
        self,
        app: SchedulesApp,
        register: Callable[[Callable[..., Any]], Task[..., Any]],
        portal: Portal,
        max_payload: int,
    ) -> None:
        self._app, self._portal = app, portal
        self._max_payload = max_payload
        self.in_code = Declarations(register)

    # In code

    def declared(self) -> tuple[Schedule, ...]:
        """Return the schedules in the code, with their jobs.

        Raises:
            InvalidJob: the arguments of a schedule do not fit its task.
        """
        return tuple(
            self._checked(replace(schedule, job=task.job(**args)))
            for schedule, task, args in self.in_code
        )

    # At run time

    async def aput(
        self, name: str, job: NewJob, cron: str | None = None, **terms: Unpack[Terms]
    ) -> ScheduleState:
        """Create a schedule, or replace the one of that name; return its state.

        Putting the same again changes nothing. A paused schedule stays paused, and the next tick
        stays unless `cron`, `every` or `timezone` changed.

        Parameters:
            name: up to 200 characters.
            job: what each tick enqueues: `task.job(…)`, or `task.using(…).job(…)` with options.
            cron: five fields (or six, seconds first), in local time; or `every` instead.
            every: a `timedelta`, or seconds, between two ticks.
            timezone: the time zone of the cron line, such as America/Sao_Paulo; UTC unless given.
            catch_up: which missed ticks still make jobs: `last` (the default), `none`, `all`.
            catch_up_limit: with `all`, the maximum number of those jobs; 100 unless given.
            overlap: what a tick does while the last job is live: `allow` (the default), `skip`, or
                `after`, with which the next tick counts from that job's end.
            jitter: a `timedelta`, or seconds; each job is due at a random time up to this long
                after its tick.
            until: there is no tick after this aware datetime.
            max_runs: there are no ticks after this number of jobs.
            pause_after: after this number of its jobs died in a row, up to 100, it is paused
                instead of ticking.

        Raises:
            InvalidSchedule: it has no timing, contradicts itself, or would never tick.
            InvalidJob: the job does not fit.
            UnknownTask: its task is not registered here.
        """
        schedule = self._checked(schedule_of(name, job, cron, terms))
        return await self._amend(name, partial(schedule_rules.put, schedule=schedule))

    put = blocking(aput)

    async def aput_many(self, schedules: Iterable[PutSchedule]) -> tuple[ScheduleState, ...]:
        """Create or replace many schedules, as `aput` does with each; return their states.

        All are checked before the first is written. A thousand of them are one transaction, which
        writes all of its thousand or none, with a few statements for those that are new or stay as
        they are. If one fails, the thousands before it are written: the same call again changes
        nothing of them.

        Parameters:
            schedules: of each the parameters of `put`, by name: `{"name": …, "job": …, "every":
                …}`.

        Raises:
            InvalidSchedule: one has no timing, contradicts itself, would never tick, or is given
                twice.
            InvalidJob: the job of one does not fit.
            UnknownTask: the task of one is not registered here.
        """
        whole = many.checked("schedule", "name", schedules, self._given, InvalidSchedule)
        done: list[ScheduleState] = []
        for part in many.parts(whole):
            amends = {name: partial(schedule_rules.put, schedule=each) for name, each in part}
            with many.written(done, len(whole)):
                amended = await self._app.store.schedules.amend_all(amends)
            done += [_found(each.state) for each in amended]
        return tuple(done)

    async def achange(
        self, name: str, *, job: NewJob | None = None, cron: str | None = None,
        **terms: Unpack[Terms],
    ) -> ScheduleState:  # fmt: skip
        """Change options of a schedule, and return its state; those that are not given stay.

        A change to a schedule that the code declares lasts until the declaration changes.

        Parameters:
            name: the schedule's name.
            job: what each tick enqueues from now on.
            cron: five fields (or six, seconds first), in local time.
            terms: the fields of `Terms`: every, timezone, catch_up, overlap, jitter, until, …

        Raises:
            UnknownSchedule: there is none of that name.
            InvalidSchedule: the result contradicts itself, or would never tick.
            InvalidJob: the job does not fit.
            UnknownTask: its task is not registered here.
        """
        given: dict[str, Any] = in_lengths(terms)
        if cron is not None:
            given["cron"] = cron
        if job is not None:
            check_is_job(name, job)
            self._check_job(job)
            given["job"] = job
        return await self._amend(name, partial(schedule_rules.change, name=name, terms=given))

    change = blocking(achange)

    async def alist(self) -> tuple[ScheduleRecord, ...]:
        """List the schedules by name, with their next ticks and the outcomes of their last jobs."""
        return tuple(await self._app.store.schedules.listed())

    list = blocking(alist)

    async def apause(self, name: str, *, reason: str | None = None) -> ScheduleState:
        """Pause a schedule: it makes no jobs until it is resumed.

        Parameters:
            reason: shown in the list of schedules.

        Raises:
            UnknownSchedule: there is none of that name.
            InvalidSchedule: another program has written into its row what no schedule can be.
            InvalidJob: the reason is no text, or longer than 1,000 characters.
        """
        if reason is not None:
            check_text("reason", reason, MAX_REASON)
        return await self._order(name, partial(schedule_rules.pause, reason=reason))

    pause = blocking(apause)

    async def aresume(self, name: str) -> ScheduleState:
        """Resume a schedule; ticks that passed during the pause make no jobs.

        Deaths until now do not count any more for `pause_after`.

        Raises:
            UnknownSchedule: there is none of that name.
            InvalidSchedule: another program has written into its row what no schedule can be.
        """
        return await self._order(name, schedule_rules.resume)

    resume = blocking(aresume)

    async def aremove(self, name: str) -> None:
        """Remove a schedule, even one whose row cannot be read; its jobs stay.

        If it is declared in code, the next worker that starts creates it again.

        Raises:
            UnknownSchedule: there is none of that name.
        """
        await self._app.store.schedules.amend(name, partial(schedule_rules.remove, name=name))

    remove = blocking(aremove)

    async def arun_now(self, name: str) -> Handle[Any]:
        """Make a job at once, in addition to the ticks, paused or not; return its handle.

        Raises:
            UnknownSchedule: there is none of that name.
            InvalidSchedule: another program has written into its row what no schedule can be.
            WrongState: its last job is live, and `overlap` is not `allow`.
        """
        done = await self._app.store.schedules.amend(
            name, partial(schedule_rules.run_now, name=name)
        )
        job = _found(done.state).schedule.job
        return Handle(done.jobs[0], job.task, job.queue, results=self._app)

    run_now = blocking(arun_now)

    def put_many(self, schedules: Iterable[PutSchedule]) -> tuple[ScheduleState, ...]:
        """Create or replace many schedules, as `put` does with each, from synchronous code.

        All are checked before the first is written. Each thousand is one transaction: all of it is
        written, or none::

            app.schedules.put_many(
                {"name": f"feed-{shop.id}", "job": fetch.job(shop=shop.id), "every": 3_600}
                for shop in shops
            )

        Raises:
            InvalidSchedule: one has no timing, contradicts itself, would never tick, or is given
                twice.
            InvalidJob: the job of one does not fit.
            UnknownTask: the task of one is not registered here.
        """
        return self._portal.call(self.aput_many, tuple(schedules))

    async def _order(self, name: str, order: Order) -> ScheduleState:
        return await self._amend(name, lambda facts: order(facts, name))

    async def _amend(self, name: str, amend: Amend) -> ScheduleState:
        return _found((await self._app.store.schedules.amend(name, amend)).state)

    def _given(self, given: PutSchedule) -> Schedule:
        """Return one of many, checked; raises as `put` does."""
        refuse_unknown("app.schedules.put", given, PutSchedule)
        terms: Any = dict(given)
        name, job, cron = terms.pop("name"), terms.pop("job", None), terms.pop("cron", None)
        return self._checked(schedule_of(name, job, cron, terms))

    def _checked(self, schedule: Schedule) -> Schedule:
        check_text("schedule's name", schedule.name, MAX_SCHEDULE_NAME)
        self._check_job(schedule.job)
        check_times(schedule)
        return schedule if schedule.job.expires is None else _lasting(schedule)

    def _check_job(self, job: NewJob) -> None:
        self._app.task_named(job.task)
        check_job(job, self._max_payload)
        if job.unique is not None:
            raise InvalidSchedule(
                f"the job has the key {job.key!r}, but each tick makes a job of its own; leave the"
                ' key out, and say with overlap="skip" or "after" if runs must not overlap'
            )


def _lasting(schedule: Schedule) -> Schedule:
    return replace(schedule, job=lasting(schedule.job))


def _found(state: ScheduleState | None) -> ScheduleState:
    if state is None:
        raise AssertionError("the schedule was removed by what cannot remove it")
    return state
