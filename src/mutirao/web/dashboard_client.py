"""The client's operations, over connections of the dashboard's own: two, with a time limit.

So no page waits for a worker's connections, or keeps one from a worker, and no statement of a page
takes longer than people wait.
"""

from collections.abc import Mapping
from typing import Any, Protocol

from mutirao.client.hosts import Hosts
from mutirao.client.other_stores.store_client import StoreClient, TaskOwner
from mutirao.model.findings import Finding
from mutirao.model.jobs.records import GraphRecord, WorkerRecord
from mutirao.ports import Store, Transport
from mutirao.tasks.task import Task

CONNECTIONS = 2
WITHIN = 8.0  # seconds


class DashboardApp(TaskOwner, Protocol):
    """The application, as the dashboard sees it."""

    store: Store

    @property
    def transports(self) -> Mapping[str, Transport]:
        """The brokers of queues."""
        ...

    @property
    def database(self) -> str:
        """The database's URL, with the password hidden."""
        ...

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        ...

    async def aexamine(self) -> list[Finding]:
        """Examine tasks, the database, its jobs, workers and hub."""
        ...


class DashboardClient(StoreClient):
    """The client for what pages read and commands do."""

    def __init__(self, app: DashboardApp) -> None:
        super().__init__(app, app.store.clone(CONNECTIONS, within=WITHIN), _register)
        self._app = app
        self.hosts = Hosts(self, self._portal)
        self.transports = app.transports
        self.aexamine = app.aexamine

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
