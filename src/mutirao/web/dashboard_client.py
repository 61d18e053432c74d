"""The client's operations, over connections of the dashboard's own: two, with a time limit.

So no page waits for a worker's connections, or keeps one from a worker, and no statement of a page
takes longer than people wait.
"""

from collections.abc import Mapping
from typing import Any, Protocol

from mutirao.client.bulk.actions import Actions
from mutirao.client.endpoints import Endpoints
from mutirao.client.hosts import Hosts
from mutirao.client.jobs import JobAdmin
from mutirao.client.limits import Limits
from mutirao.client.portal import Portal
from mutirao.client.reading import Reading
from mutirao.client.schedules import Schedules
from mutirao.client.subscriptions import Subscriptions
from mutirao.model.findings import Finding
from mutirao.model.jobs.job import MAX_PAYLOAD, NewJob
from mutirao.model.jobs.records import GraphRecord, WorkerRecord
from mutirao.ports import Store, Transport
from mutirao.tasks.handle import Handle
from mutirao.tasks.task import Task

CONNECTIONS = 2
WITHIN = 8.0  # seconds


class DashboardApp(Protocol):
    """The application, as the dashboard sees it."""

    store: Store

    @property
    def transports(self) -> Mapping[str, Transport]:
        """The brokers of queues."""
        ...

    @property
    def tasks(self) -> Mapping[str, Task[..., Any]]:
        """The registered tasks by name."""
        ...

    @property
    def database(self) -> str:
        """The database's URL, with the password hidden."""
        ...

    def task_named(self, name: str) -> Task[..., Any]:
        """Return a registered task; raise UnknownTask if there is none of that name."""
        ...

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        ...

    async def asubmit(self, job: NewJob, conn: object | None = None) -> Handle[Any]:
        """Check a job and write it."""
        ...

    async def aexamine(self) -> list[Finding]:
        """Examine tasks, the database, its jobs, workers and hub."""
        ...

    def result(self, id: int, timeout: float | None = None) -> Any:
        """Wait for a job's result."""
        ...

    async def aresult(self, id: int, timeout: float | None = None) -> Any:
        """Wait for a job's result."""
        ...


class DashboardClient(JobAdmin):
    """What pages read and commands do."""

    def __init__(self, app: DashboardApp) -> None:
        self._app = app
        self._portal = Portal()
        self.store = app.store.clone(CONNECTIONS, within=WITHIN)
        self.reading = Reading(self, self._portal)
        self.actions = Actions(self, self._portal)
        self.limits = Limits(self, lambda: tuple(app.tasks.values()), self._portal)
        self.schedules = Schedules(self, _register, self._portal, MAX_PAYLOAD)
        self.subscriptions = Subscriptions(self, self._portal, MAX_PAYLOAD)
        self.endpoints = Endpoints(self, self._portal)
        self.hosts = Hosts(self, self._portal)
        self.transports = app.transports
        self.task_named = app.task_named
        self.asubmit, self.aexamine = app.asubmit, app.aexamine
        self.result, self.aresult = app.result, app.aresult

    @property
    def tasks(self) -> Mapping[str, Task[..., Any]]:
        """The registered tasks by name; none where there is no application."""
        return self._app.tasks

    @property
    def database(self) -> str:
        """The database's URL, with the password hidden."""
        return self._app.database

    async def aworkers(self) -> list[WorkerRecord]:
        """List the workers; what each runs is counted near the front, not among all live jobs."""
        return await self.store.workers(near=True)

    async def agraph(self, id: int) -> GraphRecord:
        """Return a graph with its steps; raise UnknownGraph."""
        return await self.store.graph(id)

    async def aclose(self) -> None:
        """Close the connections."""
        await self.store.close()


def _register(function: Any) -> Task[..., Any]:
    raise AssertionError("a dashboard declares no schedules in code")
