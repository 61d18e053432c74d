"""The administration of an application's jobs: list, find, cancel, retry, change, redrive, prune.

Each operation has an asynchronous and a synchronous face.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Unpack

from mutirao.client.portal import Portal, blocking
from mutirao.errors import InvalidFilter, InvalidTask, NothingToRedrive
from mutirao.model.jobs.job import FINAL_OUTCOMES, FINAL_STATES, JobState, OutcomeKind
from mutirao.ports import Store
from mutirao.tasks.options import ChangeTerms, change_of, refuse_unknown
from mutirao.tasks.signatures.conversion import UNFIT, to_json
from mutirao.tasks.task import Task

if TYPE_CHECKING:
    from mutirao.model.jobs.records import (
        JobFilter,
        JobRecord,
        QueueCount,
        Which,
        WorkerRecord,
    )

MAX_REASONS_LISTED = 10  # of jobs that cannot be enqueued again


class JobAdmin:
    """The part of an application that inspects and repairs."""

    store: Store
    _portal: Portal

    async def ajob(self, id: int) -> JobRecord:
        """Return a job with all its attempts.

        Raises:
            UnknownJob: there is no job with this id.
        """
        from mutirao.model.jobs.records import checked_id

        return await self.store.job(checked_id(id))

    job = blocking(ajob)

    async def ajobs(self, *job_ids: int, **which: Unpack[Which]) -> list[JobRecord]:
        """List jobs, newest first, without their attempts.

        Parameters:
            job_ids: the jobs to list; all jobs if no id is given.
            which: the fields of `Which`: state, queue, task, tag, key, args, … `limit` is 100
                unless given. `args` has some of the arguments, with their values; `filter` is a
                text that has to match as well: "task:send_* older:2h".

        Raises:
            InvalidFilter: a field has an invalid value.
            TypeError: a field is unknown.
        """
        return await self.store.jobs(_filter(job_ids, which))

    jobs = blocking(ajobs)

    async def acounts(self) -> list[QueueCount]:
        """Count jobs by queue and state."""
        return await self.store.counts()

    counts = blocking(acounts)

    async def aworkers(self) -> list[WorkerRecord]:
        """List the registered workers, alive or not, and how many jobs each holds."""
        return await self.store.workers()

    workers = blocking(aworkers)

    async def acancel(self, *job_ids: int, **which: Unpack[Which]) -> list[int]:
        """Cancel live jobs, also running ones; return the ids of those that were live.

        Running jobs learn of it with the next heartbeat.

        Parameters:
            job_ids: the jobs' ids.
            which: the fields of `Which`.

        Raises:
            InvalidFilter: neither ids nor a filter is given, or a value is invalid.
            TypeError: a field is unknown.
        """
        return await self.store.cancel(_which(job_ids, which))

    cancel = blocking(acancel)

    async def aretry(self, *job_ids: int, **which: Unpack[Which]) -> list[int]:
        """Make waiting jobs due now; return their ids.

        A job keeps its earlier attempts. Running and finished jobs are left alone.

        Parameters:
            job_ids: the jobs' ids.
            which: the fields of `Which`.

        Raises:
            InvalidFilter: neither ids nor a filter is given, or a value is invalid.
            TypeError: a field is unknown.
        """
        return await self.store.run_now(_which(job_ids, which))

    retry = blocking(aretry)

    async def achange(
        self, *job_ids: int, where: Which | None = None, **new: Unpack[ChangeTerms]
    ) -> list[int]:
        """Give waiting jobs new values, effective at once; return their ids.

        Running and finished jobs are left alone. A blocked job has the new values when it is
        released; it keeps its key and its earlier attempts.

        Parameters:
            job_ids: the jobs' ids.
            where: the fields of `Which`, to choose jobs by their properties: {"queue": "mail"}.
            new: the new values: priority, queue, run_at or delay, max_attempts.

        Raises:
            InvalidFilter: neither ids nor `where` is given, or it has an invalid value.
            InvalidJob: no new value is given, or one is out of range.
            TypeError: a field or value is unknown.
        """
        change = change_of(new)
        return await self.store.change(_which(job_ids, _checked(where)), change)

    change = blocking(achange)

    async def aredrive(self, *job_ids: int, **which: Unpack[Which]) -> list[int]:
        """Enqueue finished jobs again, linked to the old ones; return the new ids.

        By id, jobs that are dead, succeeded or cancelled. By filter, dead ones, or those of the
        state in the filter, except jobs that were redriven before.

        Parameters:
            job_ids: the jobs' ids.
            which: the fields of `Which`.

        Raises:
            InvalidFilter: neither ids nor a filter is given, or a value is invalid.
            NothingToRedrive: none of the named jobs can be enqueued again; it says why.
            TypeError: a field is unknown.
        """
        chosen = _which(job_ids, which)
        again = await self.store.redrive(chosen)
        if chosen.ids and not again:
            found = await self.store.jobs(_filter(chosen.ids, {"limit": None}))
            raise NothingToRedrive(_reasons(chosen.ids, {job.id: job for job in found}))
        return again

    redrive = blocking(aredrive)

    async def aprune(self, outcome: OutcomeKind, older_than: timedelta, limit: int = 1_000) -> int:
        """Delete finished jobs with their attempts; return how many.

        Parameters:
            outcome: the outcome of the jobs to delete: succeeded, dead or cancelled.
            older_than: the time since they finished.
            limit: the maximum number of jobs to delete.

        Raises:
            InvalidFilter: no job finishes with this outcome, or `older_than` is not a `timedelta`.
        """
        if not isinstance(older_than, timedelta):
            raise InvalidFilter(f"older_than is {older_than!r}; give a timedelta(days=…)")
        return await self.store.prune(_ended_as(outcome), older_than.total_seconds(), limit)

    prune = blocking(aprune)

    async def afind(
        self, task: Task[..., Any], /, **arguments: Any
    ) -> dict[JobState, list[JobRecord]]:
        """Return the newest hundred jobs of a task with exactly these arguments, by state.

        Arguments are compared as the handler would receive them, defaults included. States without
        such a job are left out.

        Raises:
            InvalidTask: the task is not `findable`.
            InvalidArguments: the arguments do not fit it.
        """
        if not isinstance(task, Task):
            raise InvalidTask(f"the task is {task!r}; give the one that @app.task made")
        if not task.options.findable:
            raise InvalidTask(
                f"task {task.name!r} keeps no fingerprints of its jobs; register it with"
                " @app.task(findable=True). Jobs enqueued from then on are found"
            )
        from mutirao.model.jobs.records import JobFilter

        fingerprint = task.signature.fingerprint(task.signature.encode((), arguments))
        found: dict[JobState, list[JobRecord]] = {}
        for job in await self.store.jobs(JobFilter(task=task.name, fingerprint=fingerprint)):
            found.setdefault(job.state, []).append(job)
        return found

    find = blocking(afind)


def why_not_redriven(id: int, job: JobRecord | None) -> str | None:
    """Return why a job cannot be enqueued again, or None if it can."""
    if job is None:
        return f"there is no job {id}: it was never committed, or it was pruned from history since"
    if job.state not in FINAL_STATES:
        return f"job {id} is {job.state}: it has not ended yet"
    return None


def _reasons(ids: tuple[int, ...], found: dict[int, JobRecord]) -> str:
    """Return why none of these jobs was enqueued again."""
    whys = (
        why_not_redriven(id, found.get(id)) or f"job {id} has ended, but does not match the filter"
        for id in ids[:MAX_REASONS_LISTED]
    )
    more = f"; and {len(ids) - MAX_REASONS_LISTED} more" if len(ids) > MAX_REASONS_LISTED else ""
    return f"nothing is enqueued again: {'; '.join(whys)}{more}"


def _filter(ids: tuple[int, ...], which: Which) -> JobFilter:
    from mutirao.model.jobs.records import JobFilter, Which

    refuse_unknown("a filter of jobs", which, Which)
    given: dict[str, Any] = {**which, **({"ids": ids} if ids else {})}
    if (text := given.pop("filter", None)) is not None:
        from mutirao.model.filters.filter import parse  # few callers give a text

        given["terms"] = parse(text).at(datetime.now(UTC)).terms
    if isinstance(args := given.get("args"), Mapping):
        given["args"] = {name: _as_in_json(value) for name, value in args.items()}
    return JobFilter(**given)


def _as_in_json(value: Any) -> Any:
    """Return a value in the form of a job's arguments: dates and UUIDs are texts, for example."""
    try:
        return json.loads(to_json(value))
    except UNFIT as unfit:
        raise InvalidFilter(f"args has {value!r}, which has no form in JSON: {unfit}") from None


def _which(ids: tuple[int, ...], which: Which) -> JobFilter:
    chosen = _filter(ids, {"limit": None, **which})
    if not chosen.narrows:
        raise InvalidFilter(
            "neither ids nor a filter is given, which would mean every job; name ids, or a state,"
            " queue, task, tag, key, args, error_type, before, after or a filter"
        )
    return chosen


def _checked(where: Which | None) -> Which:
    if where is not None and not isinstance(where, dict):
        raise InvalidFilter(f"where is {where!r}; give a dict, such as {{'queue': 'mail'}}")
    return where or {}


def _ended_as(outcome: str) -> OutcomeKind:
    if outcome not in FINAL_OUTCOMES:
        known = ", ".join(sorted(FINAL_OUTCOMES))
        raise InvalidFilter(f"no job ends as {outcome!r}; the outcomes to prune are {known}")
    return OutcomeKind(outcome)
