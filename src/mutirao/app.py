"""`Mutirao`, the object that users hold, and the only place that combines store and engine.

Creating one reads no environment variable and opens no connection; the first use does.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Unpack
from weakref import WeakSet

from sqlalchemy import URL, Engine

from mutirao.client.consuming import Consuming
from mutirao.client.events import Listening
from mutirao.client.graphs import Graphs
from mutirao.client.inbox import Inboxes
from mutirao.client.jobs import JobAdmin
from mutirao.client.limits import Limits
from mutirao.client.portal import Portal, blocking
from mutirao.client.results import Endings
from mutirao.client.waking import Waking
from mutirao.errors import ConfigurationError, MissingDriver
from mutirao.model.jobs.job import MAX_PAYLOAD
from mutirao.model.jobs.retry import RetryPolicy
from mutirao.notifiers.hub_access import HubAccess
from mutirao.ports import Notifier, Store, Transport
from mutirao.ports.brokers import alone, close_transports
from mutirao.ports.program import ProgramConnections
from mutirao.sql.connections.application import Application
from mutirao.sql.connections.engines import Database, Engines
from mutirao.sql.connections.tenants import Tenants
from mutirao.sql.connections.urls import shown
from mutirao.sql.registry import dialect_named, dialect_with_roles
from mutirao.sql.schema.version import head
from mutirao.sql.store.hub import AnnouncingStore
from mutirao.tasks.around.hooks import Hooks
from mutirao.tasks.around.middleware import (
    AttemptMiddleware,
    EnqueueManyMiddleware,
    EnqueueMiddleware,
)
from mutirao.tasks.around.registration import HookRegistry
from mutirao.tasks.defaults import Defaults
from mutirao.tasks.options import Duration, length_of_time
from mutirao.tasks.registration import TopicRegistry
from mutirao.tasks.task import Task, refusals
from mutirao.workers import Workers

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncEngine

    from mutirao.client.bulk.actions import Actions
    from mutirao.client.endpoints import Endpoints
    from mutirao.client.hosts import Hosts
    from mutirao.client.reading import Reading
    from mutirao.client.schedules import Schedules
    from mutirao.client.subscriptions import Subscriptions
    from mutirao.engine.settings import WorkerTerms
    from mutirao.engine.workers.web_lifespan import Lifespan
    from mutirao.model.brokers.foreign import Decode
    from mutirao.model.findings import Finding
    from mutirao.model.schedules.schedule import Terms
    from mutirao.ports.measurements import Measurements
    from mutirao.tasks.blueprint import Tasks
    from mutirao.tasks.schedule_declarations import Declaring
    from mutirao.tasks.topics.topics import Topic
    from mutirao.web.access import Decide
    from mutirao.web.site import Site


DEFAULT_URL = "sqlite:///mutirao.db"


class Mutirao(
    Consuming, Listening, Graphs, TopicRegistry, JobAdmin, Inboxes, HookRegistry, Waking, Workers
):
    """An application's background jobs.

    `schedules` manages the schedules in the database; `@app.schedule(…)` declares one in the code.
    `limits` manages the limits and `limit(…)` declares one; `pause(…)` and `resume(…)`
    stop and restart queues and tasks. `subscriptions` manages which programs receive what is
    published, and `endpoints` where webhooks go. `reading` is what pages ask: lists by a filter,
    figures; `actions` does something to all jobs of a filter, with an audit.

    Parameters:
        url: the database that holds the jobs: any SQLAlchemy URL of PostgreSQL or SQLite; without
            it and `engine`, the file `mutirao.db`.
        engine: an engine of the application, instead of `url`: connections are opened like its
            own. Its pool is left to the application, and it is never disposed of.
        schema: the schema of the tables, functions and views, on PostgreSQL: a set of jobs of its
            own, of which a database may have several, whatever `search_path` a connection has.
            Without it they stand where connections look for them, which is `public` mostly.
        hub: the URL of a wake-up hub (`tcp://host:port`, `tls://host:port`, `unix:///path`), for
            databases that cannot wake workers; unless given, what MUTIRAO_HUB says. The token is
            its password, or MUTIRAO_HUB_TOKEN. Both are read when they are first needed.
        max_payload: the maximum size of a job's arguments, in bytes of JSON.
        retry: the retry policy of tasks without their own; `Retry.exponential()` unless given.
        timeout: the maximum seconds (or a `timedelta`) of an attempt, for tasks without their own;
            None: no limit.
        transports: the brokers of queues, by queue: `{"mail": RabbitMQ("amqp://…")}`. The jobs of
            such a queue are messages, and are not in the database; with a transport whose mode is
            "carried" they are, and workers learn from the broker which are due.
        store: a store to use instead of the one at `url`: one of your own, or one for tests.
        notifier: wakes the workers, in place of the database, unless a hub does; for a store of
            your own, or for tests.

    Raises:
        ConfigurationError: the URL or the engine is of no database that is known, `transports` are
            none, or `engine` is given beside `url` or `store`, or `schema` or `hub` beside `store`;
            `hub` is no URL of a hub. Or the database has no schemas, or none may have that name.
    """

    def __init__(
        self,
        url: str | URL | None = None,
        *,
        engine: Engine | AsyncEngine | None = None,
        schema: str | None = None,
        hub: str | None = None,
        max_payload: int = MAX_PAYLOAD,
        retry: RetryPolicy | None = None,
        timeout: Duration | None = None,
        transports: Mapping[str, Transport] | None = None,
        store: Store | None = None,
        notifier: Notifier | None = None,
    ) -> None:
        self.defaults = Defaults(retry=retry, timeout=length_of_time("timeout", timeout))
        self._hub: HubAccess | None = None
        database = _one_of(url, engine, store)
        if store is None:
            self._keep_in_sql(AnnouncingStore(database, hub=hub, schema=schema), notifier)
        elif schema is not None or hub is not None:
            raise ConfigurationError(
                f"Mutirao was given {'hub' if schema is None else 'schema'}= and a store; expected"
                " one of them, as the store says where the jobs are"
            )
        else:
            self._keep_in(store, notifier)
        self.url = url or DEFAULT_URL if engine is None else engine.url
        self.transports = {} if transports is None else _checked_transports(transports)
        self.decoders: dict[str, Decode] = {}
        self._max_payload = max_payload
        self._tasks: dict[str, Task[..., Any]] = {}
        self.undecided: dict[str, Task[..., Any]] = {}
        self._around_enqueue: list[EnqueueMiddleware] = []
        self._around_enqueue_many: list[EnqueueManyMiddleware] = []
        self._around_attempt: list[AttemptMiddleware] = []
        self._surroundings = Hooks()
        self._portal = Portal()
        self._sites: WeakSet[Site] = WeakSet()
        self._databases: Callable[[], Any] | None = None
        self._tenants: Tenants | None = None
        self._signers: dict[str, Callable[..., Any]] = {}
        self._measured_by: list[Measurements] = []
        self.limits = Limits(self, lambda: tuple(self._tasks.values()), self._portal)
        self.limit = self.limits.declare
        self.pause, self.apause = self.limits.pause, self.limits.apause
        self.resume, self.aresume = self.limits.resume, self.limits.aresume

    def include(self, tasks: Tasks) -> None:
        """Make the tasks, schedules and limits of a blueprint part of this application.

        Its tasks get this application's database, defaults, middleware, hooks and factories, also
        those that are registered later. After an error nothing of it is part of this application.

        Parameters:
            tasks: a blueprint that no application has included; each belongs to one.

        Raises:
            ConfigurationError: an application has included it before, or a `process=True` task of
                it has no retry policy while this application has one, which its child process
                cannot know.
            InvalidTask, InvalidSchedule, InvalidLimit: a name is taken here, or a task cannot work
                with the factories of this application.
        """
        from mutirao.tasks.blueprint import Tasks

        if not isinstance(tasks, Tasks):
            raise ConfigurationError(f"the tasks to include are {tasks!r}; give a Tasks()")
        before = (self.marked(), self.schedules.in_code.marked(), self.limits.marked())
        try:
            tasks.enter(self, self.schedules.in_code, self.limits.declare)
        except BaseException:
            for restore in before:
                restore()
            raise

    # What few programs use, and whose code is loaded when they do

    @cached_property
    def schedules(self) -> Schedules:
        """The schedules in the database."""
        from mutirao.client.schedules import Schedules

        return Schedules(self, self.task, self._portal, self._max_payload)

    def schedule(
        self,
        cron: str | None = None,
        /,
        *,
        name: str | None = None,
        args: Mapping[str, Any] | None = None,
        **terms: Unpack[Terms],
    ) -> Declaring:
        """Schedule a task in code: `@app.schedule("30 3 * * *", timezone="Europe/Berlin")`.

        Write it above `@app.task`, or alone, which also registers the function as a task. When a
        worker with this code starts, it checks the arguments and writes the schedule to the
        database.

        Parameters:
            cron: five fields (or six, seconds first), in local time; or `every` instead.
            name: the schedule's name; the task's name unless given.
            args: the arguments of each call, by name.
            terms: the fields of `Terms`: every, timezone, catch_up, overlap, jitter, until, …

        Raises:
            InvalidSchedule: it has no timing, contradicts itself, or the name is taken.
        """
        return self.schedules.in_code.declare(cron, name=name, args=args, **terms)

    @cached_property
    def subscriptions(self) -> Subscriptions:
        """The subscriptions in the database: which programs receive what is published."""
        from mutirao.client.subscriptions import Subscriptions

        return Subscriptions(self, self._portal, self._max_payload)

    async def areplay(
        self,
        id: str,
        topic: str | Topic[Any] | None = None,
        *,
        since: datetime,
        until: datetime | None = None,
        missing: bool = False,
    ) -> int:
        """Deliver to a subscription again what was published: `subscriptions.areplay`."""
        return await self.subscriptions.areplay(
            id, topic, since=since, until=until, missing=missing
        )

    replay = blocking(areplay)

    @cached_property
    def endpoints(self) -> Endpoints:
        """Where webhooks go."""
        from mutirao.client.endpoints import Endpoints

        return Endpoints(self, self._portal)

    @cached_property
    def hosts(self) -> Hosts:
        """The servers of a federation that are delivered to."""
        from mutirao.client.hosts import Hosts

        return Hosts(self, self._portal)

    @cached_property
    def actions(self) -> Actions:
        """What is done to all jobs of a filter, with an audit."""
        from mutirao.client.bulk.actions import Actions

        return Actions(self, self._portal)

    @cached_property
    def reading(self) -> Reading:
        """What pages ask: lists by a filter, figures, why a job does not run."""
        from mutirao.client.reading import Reading

        return Reading(self, self._portal)

    # The database

    @property
    def database(self) -> str:
        """The database's URL as it was given, with the password hidden."""
        return shown(self._engines.given)

    def use_database(self, url: str | URL) -> None:
        """Keep the jobs in another database, before anything has used the one that was given.

        It is for programs that choose when they start, as the command line does with `--database`.
        A list of databases that was registered does not count any more. The schema stays.

        Raises:
            ConfigurationError: the URL is of no database that is known, or the application was
                given a store without tables.
        """
        schema, hub = self._engines.schema, self._hub
        made = AnnouncingStore(url, hub=hub and hub.given, schema=schema)
        self._keep_in_sql(made)
        self.url, self._databases = url, None

    def elsewhere(self, url: str | URL) -> Mutirao:
        """Return this application with its jobs in another database.

        Tasks, hooks and brokers are the same; what is managed by `schedules`, `limits` and the
        like of this one stays here. Close the store of the returned one.

        Raises:
            ConfigurationError: the URL is of no database that is known, or the application was
                given a store without tables.
        """
        _ = self.schedules, self.subscriptions  # made by now, they are those of the copy, too
        other = copy.copy(self)
        other._portal, other._sites = Portal(), WeakSet()
        other.use_database(url)
        return other

    def use_connections(self, program: ProgramConnections) -> None:
        """Write jobs that are given no `conn=` through the connections of a framework.

        They belong to the transaction that is open there. `job.transaction(using=…)` is on these
        connections, too. Workers keep their own.

        Parameters:
            program: the connections; those of Django have an integration that calls this.

        Raises:
            ConfigurationError: the application was given a store without tables.
        """
        self._sql_store.program = program

    def _own_task(self, task: object) -> Task[..., Any]:
        """Return a task of this application, or the one that a task in other words stands for.

        Raises:
            TypeError: it is none.
        """
        own = getattr(task, "native", task)
        if not isinstance(own, Task):
            raise TypeError(f"expected a task of the application, and found {task!r:.100}")
        return own

    def migrate(self) -> str:
        """Migrate the database to the newest schema; return the revision that it has then.

        Safe to repeat, and safe when several processes call it at once. Must not be called in the
        thread of a running event loop.

        Raises:
            SchemaTooNew: the database was migrated by a newer version of the package.
            StoreUnavailable: the database cannot be reached, or the role may not create tables
                there.
            StoreError: the database refused a statement.
        """
        from mutirao.sql import migrations  # it loads Alembic, which nothing else needs

        migrations.upgrade(self._engines.database, self._engines.schema)
        return head()

    @property
    def hub_name(self) -> str:
        """The name that a hub knows the database by: from its URL, without secrets."""
        return self._engines.called if self._hub is None else self._hub.database

    async def acheck(self) -> None:
        """Raise one of the errors of the schema if the tables do not fit the code."""
        await self.store.check()

    async def aexamine(self) -> list[Finding]:
        """Examine tasks, the database, its jobs, workers and hub; return all findings."""
        from mutirao.client.transports import examine_transports
        from mutirao.model.findings import Finding, Level
        from mutirao.sql.statements.doctor import examine

        refused = [
            Finding(Level.PROBLEM, "tasks", str(each), "correct the program: no worker starts")
            for each in refusals(self._tasks.values())
        ]
        found = [*refused, *await examine(self._engines, self.tasks)]
        found += [] if self._hub is None else await self._hub.examine()
        queues = {task.options.queue for task in self._tasks.values()}
        kept = self.schedules.declared()
        return [*found, *await examine_transports(self.transports, queues, kept)]

    examine = blocking(aexamine)

    @staticmethod
    def ddl(dialect: str, schema: str | None = None) -> str:
        """Return the SQL that creates the tables in an empty database; `dialect` is "postgresql", …

        Parameters:
            dialect: the kind of database.
            schema: the schema of the tables, which is created as well; None: the usual one.

        Raises:
            ConfigurationError: `dialect` is unknown; the message lists the known ones. Or it has no
                schemas, or none may have that name.
        """
        from mutirao.sql import migrations

        return migrations.ddl(dialect, schema)

    @staticmethod
    def grants(
        dialect: str | None = None,
        roles: Sequence[str] = (),
        to: str | None = None,
        schema: str | None = None,
    ) -> str:
        """Return the SQL that grants roles the rights they need.

        Parameters:
            dialect: the kind of database; the one that knows roles, PostgreSQL, if None.
            roles: the Mutirão roles to grant; all of them if empty.
            to: the database role that receives the rights.
            schema: the schema that was chosen for the tables; None: the usual one.

        Raises:
            ConfigurationError: the dialect or a role is unknown, or the database has no roles.
        """
        found = dialect_named(dialect) if dialect else dialect_with_roles()
        return found.admin.grants(roles, to, schema)

    # The dashboard

    def web(
        self, *, access: Decide, origins: Sequence[str] = (), redact: Sequence[str] = ()
    ) -> Site:
        """Return the dashboard as an ASGI application, to be mounted: `Mount("/jobs", app.web(…))`.

        Opens nothing before its first request. It has two connections of its own to the database,
        beside those of the application.

        Parameters:
            access: called with each request (Starlette's), returns the `mutirao.web.Access` of
                its sender, at once or as a coroutine. There is no default.
            origins: where browsers have the pages from, if a proxy before the program speaks HTTPS
                or has another name: `("https://jobs.example.com",)`.
            redact: names of arguments whose values are secrets, beside those that are known by
                their names, such as `password`.

        Raises:
            ConfigurationError: `mutirao[web]` is not installed, or an origin is none.
        """
        try:
            from mutirao.web import mounting  # its packages are needed by nothing else
        except ModuleNotFoundError as missing:
            raise MissingDriver(
                f"the dashboard needs {missing.name}, which is not installed: run"
                " pip install 'mutirao[web]'"
            ) from missing
        site = mounting.mounted(self, access, origins, redact)
        self._sites.add(site)
        return site

    # Beginning and closing

    def lifespan(self, worker: bool = False, **settings: Unpack[WorkerTerms]) -> Lifespan:
        """Return what a web application holds while its server serves: `async with` it.

        It stands in a lifespan of yours, or is one: `FastAPI(lifespan=app.lifespan())`. Entering it
        opens nothing, unless there is a worker. At the end all connections of this process are
        closed, those of synchronous calls too.

        Parameters:
            worker: whether a worker runs meanwhile, in the event loop of the web server; one in
                each of its processes. If it ends by itself, `lifespan(…).worker.health()` says so.
            settings: of that worker: those of `worker`.

        Raises:
            ConfigurationError: there are settings, and no worker; or a setting is out of range.
        """
        if settings and not worker:
            raise ConfigurationError(
                f"lifespan() was given {', '.join(settings)} and no worker; say worker=True, of"
                " which these are settings"
            )
        from mutirao.engine.workers.web_lifespan import (
            Lifespan,  # the engine, which only workers need
        )

        return Lifespan(self.worker(**settings) if worker else None, self._close_all)

    async def aclose(self) -> None:
        """Close the connections of the running event loop, dashboards, and the one to a hub."""
        for site in [*self._sites]:
            await site.aclose()
        if self._hub is not None:
            await asyncio.to_thread(self._hub.close)
        await close_transports(self.transports)
        await self.store.close()

    def close(self) -> None:
        """Close the connections that synchronous calls opened, and the one to a hub."""
        if self._hub is not None:
            self._hub.close()
        self._portal.call(close_transports, self.transports)
        self._portal.call(self.store.close)
        self._portal.close()

    async def _close_all(self) -> None:
        await self.aclose()
        if self._portal.running:
            await asyncio.to_thread(self.close)

    # Composition

    def _keep_in_sql(self, store: AnnouncingStore, notifier: Notifier | None = None) -> None:
        self._hub = store.hub
        self._keep_in(store, notifier or store.notifier(), store.ends_notifier())

    def _keep_in(
        self, store: Store, notifier: Notifier | None, ends: Notifier | None = None
    ) -> None:
        self.store: Store = store
        self._notifier = notifier
        self._endings = Endings(lambda: self.store, ends)

    def _check_conflicts(self, task: Task[..., Any]) -> None:
        if alone(self.transports, task.options.queue) is not None:
            from mutirao.client.broker_publishing import check_task

            check_task(task)
        if task.options.limits:
            self.limits.check(task)

    @property
    def _engines(self) -> Engines:
        return self._sql_store.engines


def _checked_transports(transports: Mapping[str, Transport]) -> dict[str, Transport]:
    from mutirao.client.broker_publishing import checked_transports

    return checked_transports(transports)


def _one_of(
    url: str | URL | None, engine: Engine | AsyncEngine | None, store: Store | None
) -> Database:
    """Return where the database is. Raises ConfigurationError if an engine is not all that says."""
    if engine is None:
        return url or DEFAULT_URL
    Application(engine)  # which says what is wrong with what is none
    if url is not None or store is not None:
        raise ConfigurationError(
            f"Mutirao was given engine= and {'a url' if url is not None else 'a store'}; expected"
            " one of them, as each says where the jobs are. An engine has a URL of its own."
        )
    return engine
