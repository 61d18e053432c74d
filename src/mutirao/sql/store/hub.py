"""A store that notifies a hub of its commits, so that idle workers look at once.

Jobs that the store itself commits are announced after its commit; those written through a session
of SQLAlchemy, when that commits. The commits of other connections are unknown: the hub polls for
those.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from sqlalchemy import event

from mutirao.model.jobs.job import Wake
from mutirao.notifiers.hub_access import HubAccess
from mutirao.sql.connections.engines import POOL_SIZE
from mutirao.sql.drivers.kinds import Adapting, Kinds
from mutirao.sql.store.jobs import SqlStore

if TYPE_CHECKING:
    from mutirao.model.graphs.graph_plan import Plan
    from mutirao.model.jobs.job import NewJob
    from mutirao.model.jobs.outcome import Settlement
    from mutirao.ports import Announcer
    from mutirao.sql.connections.engines import Database

# A lane is read from the moment that a wake-up names. Where this machine's clock gives it,
# that may be so far ahead of the database's; if it is more, the hub's polling finds the job.
CLOCK_SKEW = timedelta(seconds=60)
_PENDING = "mutirao_announced"  # the key of a session's jobs that wait for its commit


class Gathered:
    """The wake-up for the jobs that pass: their lane, if it is one, and how many there are."""

    def __init__(self) -> None:
        self.jobs = 0
        self._lanes: set[tuple[str, int]] = set()
        self._tasks: set[str] = set()
        self._first: datetime | None = None

    def watching(self, jobs: Iterable[NewJob]) -> Iterable[NewJob]:
        """Return the same jobs, which are noted as they pass."""
        if not isinstance(jobs, list | tuple):
            return self._passing(jobs)
        for job in jobs:
            self.add(job)
        return jobs

    def add(self, job: NewJob) -> None:
        """Record a job."""
        self.jobs += 1
        if len(self._lanes) > 1:
            return
        self._lanes.add((job.lane, job.priority))
        self._tasks.add(job.task)
        at = job.run_at or datetime.now(UTC) + timedelta(seconds=job.delay or 0.0) - CLOCK_SKEW
        self._first = at if self._first is None else min(self._first, at)

    def merge(self, other: Gathered) -> None:
        """Record the jobs of another one."""
        self.jobs += other.jobs
        self._lanes |= other._lanes
        self._tasks |= other._tasks
        moments = [at for at in (self._first, other._first) if at is not None]
        self._first = min(moments, default=None)

    def announce_to(self, announcer: Announcer) -> None:
        """Announce them to a hub."""
        if not self.jobs:
            return
        if len(self._lanes) > 1:
            announcer.announce(Wake(), self.jobs)
            return
        [(lane, priority)] = self._lanes
        task = next(iter(self._tasks)) if len(self._tasks) == 1 else None
        announcer.announce(Wake(lane, priority, self._first), self.jobs, task)

    def _passing(self, jobs: Iterable[NewJob]) -> Iterator[NewJob]:
        for job in jobs:
            self.add(job)
            yield job


class AnnouncingStore(SqlStore):
    """The jobs in a SQL database, and a hub to which they are announced, if there is one.

    Parameters:
        database: where it is: a URL, or an engine of the application.
        hub: the hub's URL, or None: what the environment says, if anything.
        pool_size: connections kept open for each event loop.
        within: maximum seconds of each asynchronous call; None: no limit.
        schema: the schema of the tables; None: the one that connections find them in.
    """

    def __init__(
        self,
        database: Database,
        *,
        hub: str | HubAccess | None = None,
        pool_size: int = POOL_SIZE,
        within: float | None = None,
        schema: str | None = None,
    ) -> None:
        super().__init__(database, pool_size=pool_size, within=within, schema=schema)
        self.hub = hub if isinstance(hub, HubAccess) else HubAccess(hub, self.engines.called)
        self._sender = replace(self._sender, hub=self.hub)
        self._owns_hub = False  # whether only this store closes it

    def clone(self, connections: int = 1, *, within: float | None = None) -> AnnouncingStore:
        """Return another handle on the same database, with connections of its own."""
        where = self.engines.database, self.engines.schema
        other = AnnouncingStore(
            where[0], hub=self.hub, pool_size=connections, within=within, schema=where[1]
        )
        other.engines.share_with(self.engines)
        other.program = self.program
        return other

    def elsewhere(
        self, url: str, connections: int, *, within: float | None = None
    ) -> AnnouncingStore:
        """Return a handle on another database, announced to the same hub."""
        schema, hub = self.engines.schema, self.hub.given
        other = AnnouncingStore(url, hub=hub, pool_size=connections, within=within, schema=schema)
        other._owns_hub = True
        return other

    async def close(self) -> None:
        """Close the connections of this process and event loop."""
        await super().close()
        if self._owns_hub:
            await asyncio.to_thread(self.hub.close)

    # Enqueueing

    def enqueue(self, jobs: Iterable[NewJob], conn: object | None = None) -> list[int]:
        """Write jobs, and announce them once they are committed."""
        conn = self._through(conn)
        if not self.hub.listens:
            return super().enqueue(jobs, conn)
        seen = Gathered()
        ids = super().enqueue(seen.watching(jobs), conn)
        self._announce(seen, conn)
        return ids

    async def aenqueue(self, jobs: Iterable[NewJob], conn: object | None = None) -> list[int]:
        """Write jobs, and announce them once they are committed."""
        if conn is None and (program := self._writes_through()) is not None:
            return await program.call(self.enqueue, jobs)
        if not self.hub.listens:
            return await super().aenqueue(jobs, conn)
        seen = Gathered()
        ids = await super().aenqueue(seen.watching(jobs), conn)
        self._announce(seen, conn)
        return ids

    def enqueue_graph(self, plan: Plan, conn: object | None = None) -> list[int]:
        """Write a graph, and announce it once it is committed."""
        conn = self._through(conn)
        ids = super().enqueue_graph(plan, conn)
        self._announce_graph(plan, conn)
        return ids

    async def aenqueue_graph(self, plan: Plan, conn: object | None = None) -> list[int]:
        """Write a graph, and announce it once it is committed."""
        if conn is None and (program := self._writes_through()) is not None:
            return await program.call(self.enqueue_graph, plan)
        ids = await super().aenqueue_graph(plan, conn)
        self._announce_graph(plan, conn)
        return ids

    async def settle(
        self, worker: int, settlements: Sequence[Settlement], *, now: datetime | None = None
    ) -> set[int]:
        """Write the outcomes of attempts; those of steps of graphs may release others."""
        settled = await super().settle(worker, settlements, now=now)
        if any(each.linked for each in settlements):
            self._sender.announce(len(settled))
        return settled

    # Announcing

    def _announce(self, seen: Gathered, conn: object | None) -> None:
        if conn is None:
            seen.announce_to(self.hub)
        elif (kind := _SESSIONS.of(conn)) is not None:
            _announce_at_commit(kind.adapt(conn), self.hub, seen)
        elif hasattr(conn, "on_commit"):  # Django's
            django: Any = conn
            django.on_commit(partial(seen.announce_to, self.hub), robust=True)

    def _announce_graph(self, plan: Plan, conn: object | None) -> None:
        if self.hub.listens:
            seen = Gathered()
            seen.watching(plan.jobs)
            self._announce(seen, conn)


_SESSIONS = Kinds[Any](
    Adapting("sqlalchemy.orm", "Session", lambda session: session),
    Adapting("sqlalchemy.orm", "scoped_session", lambda registry: registry()),
    Adapting("sqlalchemy.ext.asyncio", "AsyncSession", lambda session: session.sync_session),
    Adapting(
        "sqlalchemy.ext.asyncio",
        "async_scoped_session",
        lambda registry: registry().sync_session,
    ),
)


def _announce_at_commit(session: Any, announcer: Announcer, seen: Gathered) -> None:
    """Announce when a session commits. Jobs rolled back may be announced with a later commit."""
    pending = session.info.setdefault(_PENDING, {})
    pending.setdefault(announcer, Gathered()).merge(seen)
    if not event.contains(session, "after_commit", _committed):
        event.listen(session, "after_commit", _committed)


def _committed(session: Any) -> None:
    if session.in_nested_transaction():  # a savepoint is released
        return
    for announcer, seen in session.info.pop(_PENDING, {}).items():
        seen.announce_to(announcer)
