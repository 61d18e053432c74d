"""What an application offers to people, over a store that is given: other connections, a loan."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from mutirao.client.bulk.actions import Actions
from mutirao.client.endpoints import Endpoints
from mutirao.client.jobs import JobAdmin
from mutirao.client.limits import Limits
from mutirao.client.portal import Portal
from mutirao.client.reading import Reading
from mutirao.client.schedules import Schedules
from mutirao.client.subscriptions import Subscriptions
from mutirao.model.jobs.job import MAX_PAYLOAD, NewJob
from mutirao.ports import Store
from mutirao.tasks.handle import Handle
from mutirao.tasks.task import Task


class TaskOwner(Protocol):
    """The application, as far as its tasks and results matter."""

    @property
    def tasks(self) -> Mapping[str, Task[..., Any]]:
        """The registered tasks by name."""
        ...

    def task_named(self, name: str) -> Task[..., Any]:
        """Return a registered task; raise UnknownTask if there is none of that name."""
        ...

    async def asubmit(self, job: NewJob, conn: object | None = None) -> Handle[Any]:
        """Check a job and write it."""
        ...

    def result(self, id: int, timeout: float | None = None) -> Any:
        """Wait for a job's result."""
        ...

    async def aresult(self, id: int, timeout: float | None = None) -> Any:
        """Wait for a job's result."""
        ...


class StoreClient(JobAdmin):
    """The client's operations, as an application has them.

    Parameters:
        app: whose tasks these are.
        store: where the jobs are.
        register: registers a function that a schedule is declared for.
    """

    def __init__(
        self, app: TaskOwner, store: Store, register: Callable[[Any], Task[..., Any]]
    ) -> None:
        self._owner, self.store, self._portal = app, store, Portal()
        self.reading = Reading(self, self._portal)
        self.actions = Actions(self, self._portal)
        self.limits = Limits(self, lambda: tuple(app.tasks.values()), self._portal)
        self.schedules = Schedules(self, register, self._portal, MAX_PAYLOAD)
        self.subscriptions = Subscriptions(self, self._portal, MAX_PAYLOAD)
        self.endpoints = Endpoints(self, self._portal)
        self.task_named = app.task_named
        self.result, self.aresult = app.result, app.aresult

    @property
    def tasks(self) -> Mapping[str, Task[..., Any]]:
        """The registered tasks by name; none where there is no application."""
        return self._owner.tasks

    async def asubmit(self, job: NewJob, conn: object | None = None) -> Handle[Any]:
        """Check a job and write it, as the application does."""
        return await self._owner.asubmit(job, conn)
