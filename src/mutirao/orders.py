"""What people order and ask of an application's jobs: look, find, cancel, retry, redrive, prune.

Each has an asynchronous face and a synchronous one.
"""

from datetime import timedelta
from typing import Any

from mutirao.engine.portal import Portal
from mutirao.errors import InvalidFilter, InvalidTask
from mutirao.job import FINAL_OUTCOMES, JobState, OutcomeKind
from mutirao.ports import Store
from mutirao.records import JobFilter, JobRecord, QueueCount
from mutirao.task import Task


class Orders:
    """The part of an application that looks and repairs."""

    store: Store
    _portal: Portal

    async def ajob(self, id: int) -> JobRecord:
        """Return a job with all its attempts. Raises UnknownJob."""
        return await self.store.job(id)

    async def ajobs(self, **which: Any) -> list[JobRecord]:
        """List jobs, newest first; `which` are the fields of `JobFilter`."""
        return await self.store.jobs(JobFilter(**which))

    async def acounts(self) -> list[QueueCount]:
        """Count jobs by queue and state."""
        return await self.store.counts()

    async def acancel(self, *ids: int, **which: Any) -> list[int]:
        """Cancel live jobs, running ones too; return the ids of those that were live."""
        return await self.store.cancel(_which(ids, which))

    async def aretry(self, *ids: int, **which: Any) -> list[int]:
        """Make waiting jobs due now; return their ids."""
        return await self.store.hurry(_which(ids, which))

    async def aredrive(self, *ids: int, **which: Any) -> list[int]:
        """Enqueue dead jobs again, linked to the old ones; return the new ids."""
        return await self.store.redrive(_which(ids, which))

    async def aprune(self, outcome: OutcomeKind, older_than: timedelta, limit: int = 1_000) -> int:
        """Delete up to `limit` jobs that ended so, longer ago than that; return how many."""
        if not isinstance(older_than, timedelta):
            raise InvalidFilter(f"older_than is {older_than!r}; give a timedelta(days=…)")
        return await self.store.prune(_ended_as(outcome), older_than.total_seconds(), limit)

    async def afind(
        self, task: Task[..., Any], /, **arguments: Any
    ) -> dict[JobState, list[JobRecord]]:
        """Return the newest hundred jobs of a task with exactly these arguments, by state.

        Arguments are compared as the handler would get them, defaults included. States without
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
        fingerprint = task.signature.fingerprint(task.signature.encode((), arguments))
        found: dict[JobState, list[JobRecord]] = {}
        for job in await self.store.jobs(JobFilter(task=task.name, fingerprint=fingerprint)):
            found.setdefault(job.state, []).append(job)
        return found

    def job(self, id: int) -> JobRecord:
        """As `ajob`."""
        return self._portal.call(self.ajob, id)

    def jobs(self, **which: Any) -> list[JobRecord]:
        """As `ajobs`."""
        return self._portal.call(self.ajobs, **which)

    def counts(self) -> list[QueueCount]:
        """As `acounts`."""
        return self._portal.call(self.acounts)

    def cancel(self, *ids: int, **which: Any) -> list[int]:
        """As `acancel`."""
        return self._portal.call(self.acancel, *ids, **which)

    def retry(self, *ids: int, **which: Any) -> list[int]:
        """As `aretry`."""
        return self._portal.call(self.aretry, *ids, **which)

    def redrive(self, *ids: int, **which: Any) -> list[int]:
        """As `aredrive`."""
        return self._portal.call(self.aredrive, *ids, **which)

    def prune(self, outcome: OutcomeKind, older_than: timedelta, limit: int = 1_000) -> int:
        """As `aprune`."""
        return self._portal.call(self.aprune, outcome, older_than, limit)

    def find(self, task: Task[..., Any], /, **arguments: Any) -> dict[JobState, list[JobRecord]]:
        """As `afind`."""
        return self._portal.call(self.afind, task, **arguments)


def _which(ids: tuple[int, ...], which: dict[str, Any]) -> JobFilter:
    chosen = JobFilter(**{"limit": None, **which, **({"ids": ids} if ids else {})})
    if not chosen.narrows:
        raise InvalidFilter(
            "neither ids nor a filter is given, which would mean every job; name ids, or a state,"
            " queue, task, tag, error_type, before or after"
        )
    return chosen


def _ended_as(outcome: str) -> OutcomeKind:
    if outcome not in FINAL_OUTCOMES:
        known = ", ".join(sorted(FINAL_OUTCOMES))
        raise InvalidFilter(f"no job ends as {outcome!r}; the outcomes to prune are {known}")
    return OutcomeKind(outcome)
