"""`Mutirao`, the object that users hold, and the only place that combines store and engine.

Creating one reads no environment variable and opens no connection; the first use does.
"""

import asyncio
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from sqlalchemy import URL, Engine

from mutirao.client.graphs import Graphs
from mutirao.client.jobs import JobAdmin
from mutirao.client.limits import Limits
from mutirao.client.portal import Portal
from mutirao.client.schedules import Schedules
from mutirao.client.waking import Waking
from mutirao.engine.embedded import EmbeddedWorker
from mutirao.engine.endings import Endings
from mutirao.engine.service import run
from mutirao.engine.settings import WorkerSettings, WorkerTerms
from mutirao.engine.worker import Worker
from mutirao.errors import ConfigurationError
from mutirao.hub.protocol import Serves
from mutirao.model.findings import Finding, Level
from mutirao.model.job import MAX_PAYLOAD, Job
from mutirao.model.retry import RetryPolicy
from mutirao.notifiers.hub_access import HubAccess
from mutirao.ports import Notifier, Store
from mutirao.sql.announcing import AnnouncingStore
from mutirao.sql.connections.application import Application
from mutirao.sql.connections.engines import Database, Engines
from mutirao.sql.registry import dialect_named, dialect_with_roles
from mutirao.sql.schema.version import head
from mutirao.sql.statements.doctor import examine
from mutirao.sql.store import SqlStore
from mutirao.tasks.blueprint import Tasks
from mutirao.tasks.defaults import Defaults
from mutirao.tasks.middleware import AttemptMiddleware, EnqueueMiddleware
from mutirao.tasks.options import Duration, length_of_time
from mutirao.tasks.registry import TaskRegistry
from mutirao.tasks.surroundings import AsyncHook, Hook, Surroundings
from mutirao.tasks.task import Task, refusals

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncEngine

AroundEnqueue = TypeVar("AroundEnqueue", bound=EnqueueMiddleware)
AroundAttempt = TypeVar("AroundAttempt", bound=Callable[[Job], Any])
Provider = TypeVar("Provider", bound=Callable[..., Any])
AroundHandler = TypeVar("AroundHandler", bound=Hook | AsyncHook)

DEFAULT_URL = "sqlite:///mutirao.db"
EXIT_WHEN_STUCK = 30.0  # seconds; for a worker that is the whole process
CONNECTIONS_BESIDE_HANDLERS = 4  # for claiming, settling and housekeeping, and a spare one


class Mutirao(Graphs, TaskRegistry, JobAdmin, Waking):
    """An application's background jobs.

    `schedules` manages the schedules in the database; `@app.schedule(…)` declares one in the code.
    Likewise `limits` manages the limits and `limit(…)` declares one; `pause(…)` and `resume(…)`
    stop and restart queues and tasks.

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
        store: a store to use instead of the one at `url`; for tests.
        notifier: wakes the workers, in place of the database, unless a hub does; for tests.

    Raises:
        ConfigurationError: the URL or the engine is of no database that is known, or `engine` is
            given beside `url` or `store`, or `schema` or `hub` beside `store`; `hub` is no URL of a
            hub. Or the database has no
            schemas, or none may have that name.
    """

    def __init__(
        self,
        url: str | URL | None = None,
        *,
        engine: "Engine | AsyncEngine | None" = None,
        schema: str | None = None,
        hub: str | None = None,
        max_payload: int = MAX_PAYLOAD,
        retry: RetryPolicy | None = None,
        timeout: Duration | None = None,
        store: Store | None = None,
        notifier: Notifier | None = None,
    ) -> None:
        self.defaults = Defaults(retry=retry, timeout=length_of_time("timeout", timeout))
        ends: Notifier | None = None
        self._hub: HubAccess | None = None
        database = _one_of(url, engine, store)
        if store is None:
            store = AnnouncingStore(database, hub=hub, schema=schema)
            notifier = notifier or store.notifier()
            self._hub, ends = store.hub, store.ends_notifier()
        elif schema is not None or hub is not None:
            raise ConfigurationError(
                f"Mutirao was given {'hub' if schema is None else 'schema'}= and a store; expected"
                " one of them, as the store says where the jobs are"
            )
        self.store: Store = store
        self.url = url or DEFAULT_URL if engine is None else engine.url
        self._notifier = notifier
        self._max_payload = max_payload
        self._tasks: dict[str, Task[..., Any]] = {}
        self.undecided: dict[str, Task[..., Any]] = {}
        self._around_enqueue: list[EnqueueMiddleware] = []
        self._around_attempt: list[AttemptMiddleware] = []
        self._surroundings = Surroundings()
        self._portal = Portal()
        self._endings = Endings(lambda: self.store, ends)
        self.schedules = Schedules(self, self.task, self._portal, max_payload)
        self.schedule = self.schedules.declare
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
        if not isinstance(tasks, Tasks):
            raise ConfigurationError(f"the tasks to include are {tasks!r}; give a Tasks()")
        before = (self.marked(), self.schedules.in_code.marked(), self.limits.marked())
        try:
            tasks.enter(self, self.schedules.in_code, self.limits.declare)
        except BaseException:
            for restore in before:
                restore()
            raise

    # Middleware

    def around_enqueue(self, middleware: AroundEnqueue) -> AroundEnqueue:
        """Register a middleware that wraps every enqueue, in this process; return it.

        Parameters:
            middleware: a generator function that takes the `NewJob`, yields it or another one in
                its place, once, and receives the `Handle`. The first one added is the outermost.
        """
        self._around_enqueue.append(middleware)
        return middleware

    def around_attempt(self, middleware: AroundAttempt) -> AroundAttempt:
        """Register a middleware that wraps every attempt, in the worker's event loop; return it.

        Parameters:
            middleware: a generator function, asynchronous or not, that takes the `Job`, yields
                once, and receives the `Outcome`. The first one added is the outermost.
        """
        self._around_attempt.append(middleware)
        return middleware

    def around_handler(self, hook: AroundHandler) -> AroundHandler:
        """Register a hook around handlers, which runs where the handler runs.

        A hook takes the `Job` and yields once. A plain generator function stands around plain
        functions, in their own thread or child process; an asynchronous one around coroutines, in
        their event loop. A handler's error is raised at the yield. A hook may raise another one
        instead, but cannot swallow it. What a hook raises fails the attempt. The first one added is
        the outermost. It counts for the attempts that begin from now on.

        Raises:
            ConfigurationError: the hook is not a generator function.
        """
        self._surroundings.add_hook(hook)
        return hook

    def provide(self, factory: Provider) -> Provider:
        """Register a factory that provides the type of its return annotation to handlers.

        A parameter of that type, or with the default `PROVIDED`, is no argument of a call. The
        factory is called for each attempt, at most once, where the handler runs: in its own
        thread, event loop or child process, inside the hooks. A generator function provides what
        it yields, once, and tears it down after the handler, however that has ended; the
        handler's error is raised at the yield, and cannot be swallowed. Parameters of a factory
        are provided as well, or annotated `Job`. Asynchronous factories are for coroutines only.
        What a factory raises fails the attempt.

        Raises:
            ConfigurationError: the annotations do not say what it provides and takes, another
                factory provides that type, or a task takes it as an argument already.
        """
        self._surroundings.factories.add(factory)
        return factory

    # Workers

    def worker(self, **settings: Unpack[WorkerTerms]) -> EmbeddedWorker:
        """Return a worker to run inside this program: `async with`, `with`, or `start`/`stop`.

        Parameters:
            settings: the fields of `WorkerSettings`: queues, concurrency, grace, poll, …

        Raises:
            ConfigurationError: `queues` is a text instead of a list.
        """
        chosen = WorkerSettings.of(settings)
        return EmbeddedWorker(lambda: self._make_worker(chosen))

    def run_worker(self, **settings: Unpack[WorkerTerms]) -> int:
        """Run a worker in this process until a signal stops it; return an exit status.

        0: it was stopped. 3: the schema does not fit any more. 5: one of its loops failed. 6:
        handlers that do not end held all slots for `exit_when_stuck` seconds (30 unless given). 7:
        it was ended by force, because handlers did not end within `grace` plus 15 seconds.
        """
        chosen = WorkerSettings.of({"exit_when_stuck": EXIT_WHEN_STUCK, **settings})
        return run(lambda: self._make_worker(chosen))

    # The database

    @property
    def database(self) -> str:
        """The database's URL as it was given, with the password hidden."""
        return self._engines.given.render_as_string(hide_password=True)

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
        """Raise SchemaMissing, SchemaTooOld or SchemaTooNew if the tables do not fit the code."""
        await self.store.check()

    async def aexamine(self) -> list[Finding]:
        """Examine tasks, the database, its jobs and its workers; return all findings."""
        refused = [
            Finding(Level.PROBLEM, "tasks", str(each), "correct the program: no worker starts")
            for each in refusals(self._tasks.values())
        ]
        return [*refused, *await examine(self._engines, self.tasks)]

    def examine(self) -> list[Finding]:
        """Examine tasks, the database, its jobs and its workers, from synchronous code."""
        return self._portal.call(self.aexamine)

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

    # Closing

    async def aclose(self) -> None:
        """Close the connections of the running event loop, and the one to a hub."""
        if self._hub is not None:
            await asyncio.to_thread(self._hub.close)
        await self.store.close()

    def close(self) -> None:
        """Close the connections that synchronous calls opened, and the one to a hub."""
        if self._hub is not None:
            self._hub.close()
        self._portal.call(self.store.close)
        self._portal.close()

    # Composition

    def _check_conflicts(self, task: Task[..., Any]) -> None:
        if task.options.limits:
            self.limits.check(task)

    @property
    def _engines(self) -> Engines:
        if not isinstance(self.store, SqlStore):
            raise ConfigurationError(
                f"this application keeps its jobs in a {type(self.store).__name__}, which has no"
                " tables; give Mutirao(url) a database"
            )
        return self.store.engines

    def _notifier_for(self, settings: WorkerSettings) -> Notifier | None:
        if self._hub is None or not self._hub.listens:
            return self._notifier
        lanes = settings.queues, settings.exclude_queues or ()
        return self._hub.notifier(Serves(*lanes, settings.tasks), settings.poll)

    def _make_worker(self, settings: WorkerSettings) -> Worker:
        return Worker(
            self.store.clone(
                settings.concurrency + CONNECTIONS_BESIDE_HANDLERS, within=settings.call_limit
            ),
            self._notifier_for(settings),
            self._tasks,
            self._around_attempt,
            settings,
            version("mutirao"),
            self.schedules.declared,
            self.limits.declared,
        )


def _one_of(
    url: str | URL | None, engine: "Engine | AsyncEngine | None", store: Store | None
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
