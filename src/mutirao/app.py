"""`Mutirao`: what users hold. The one place that puts a store, a notifier and the engine together.

Making one reads no environment and opens no connection; that happens when it is first used.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import timedelta
from importlib.metadata import version
from types import MappingProxyType
from typing import Any, Concatenate, ParamSpec, TypeVar, overload

from sqlalchemy import URL

from mutirao.checks import check_job, check_unique
from mutirao.engine.embedded import EmbeddedWorker
from mutirao.engine.endings import Endings
from mutirao.engine.portal import Portal
from mutirao.engine.service import run
from mutirao.engine.settings import WorkerSettings
from mutirao.engine.worker import Worker
from mutirao.errors import ConfigurationError, InvalidTask, UnknownTask
from mutirao.graphs import Graphs
from mutirao.handle import Handle
from mutirao.job import DEFAULT_QUEUE, MAX_PAYLOAD, Job, NewJob
from mutirao.limit import Limit
from mutirao.limits import Limits
from mutirao.middleware import AttemptMiddleware, Enqueueing, EnqueueMiddleware
from mutirao.notifiers import ends_notifier_for, notifier_for
from mutirao.orders import Orders
from mutirao.ports import Notifier, Store
from mutirao.results import keeping
from mutirao.retry import RetryPolicy, policy_of
from mutirao.schedules import Schedules
from mutirao.sql.store import SqlStore
from mutirao.supersede import Supersede
from mutirao.task import (
    Conflict,
    Task,
    TaskOptions,
    length_of_time,
    several_limits,
    several_tags,
    uniqueness,
)
from mutirao.unique import Placed, Unique

P = ParamSpec("P")
R = TypeVar("R")
AroundEnqueue = TypeVar("AroundEnqueue", bound=EnqueueMiddleware)
AroundAttempt = TypeVar("AroundAttempt", bound=Callable[[Job], Any])

DEFAULT_URL = "sqlite:///mutirao.db"
EXIT_WHEN_STUCK = 30.0  # seconds; of a worker that is a whole process
SPARE_CONNECTIONS = 4  # claiming, settling, housekeeping and one more


class _Decorator:
    """What `@app.task(...)` returns: turns a function into a task, with or without a `Job`."""

    def __init__(self, app: "Mutirao", name: str | None, options: TaskOptions) -> None:
        self._app, self._name, self._options = app, name, options

    @overload
    def __call__(self, function: Callable[Concatenate[Job, P], R], /) -> Task[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Task[P, R]: ...
    def __call__(self, function: Callable[..., Any], /) -> Task[..., Any]:
        name = self._name or str(getattr(function, "__name__", ""))
        task: Task[..., Any] = Task(self._app, function, name, self._options)
        self._app.register(task)
        return task

    def over(self, function: Callable[..., Any] | None) -> "Task[..., Any] | _Decorator":
        """Decorate a function; without one, wait for it."""
        return self if function is None else self(function)


class Mutirao(Orders, Graphs):
    """An application's background jobs.

    `schedules` are those of the database; `@app.schedule(…)` declares one in the code. Likewise
    `limits`, and `limit(…)`; `pause(…)` and `resume(…)` order them about.

    Parameters:
        url: the database that holds them: any SQLAlchemy URL of PostgreSQL or SQLite.
        max_payload: the most bytes of JSON a job's arguments may take.
        store: instead of the one at `url`; for tests.
        notifier: wakes workers of a `store` that was given.
    """

    def __init__(
        self,
        url: str | URL = DEFAULT_URL,
        *,
        max_payload: int = MAX_PAYLOAD,
        store: Store | None = None,
        notifier: Notifier | None = None,
    ) -> None:
        ends: Notifier | None = None
        if store is None:
            store = SqlStore(url)
            notifier = notifier or notifier_for(store.engines.database, store.engines.url)
            ends = ends_notifier_for(store.engines.database, store.engines.url)
        self.store: Store = store
        self.url = url
        self._notifier = notifier
        self._max_payload = max_payload
        self._tasks: dict[str, Task[..., Any]] = {}
        self._around_enqueue: list[EnqueueMiddleware] = []
        self._around_attempt: list[AttemptMiddleware] = []
        self._portal = Portal()
        self._endings = Endings(lambda: self.store, ends)
        self.schedules = Schedules(self, self.task, self._portal, max_payload)
        self.schedule = self.schedules.declare
        self.limits = Limits(self, lambda: tuple(self._tasks.values()), self._portal)
        self.limit = self.limits.declare
        self.pause, self.apause = self.limits.pause, self.limits.apause
        self.resume, self.aresume = self.limits.resume, self.limits.aresume

    # Tasks.

    @overload
    def task(self, function: Callable[Concatenate[Job, P], R], /) -> Task[P, R]: ...
    @overload
    def task(self, function: Callable[P, R], /) -> Task[P, R]: ...
    @overload
    def task(
        self,
        /,
        *,
        name: str | None = None,
        queue: str = DEFAULT_QUEUE,
        priority: int = 0,
        retry: RetryPolicy | None = None,
        max_attempts: int | None = None,
        timeout: float | timedelta | None = None,
        process: bool = False,
        tags: Iterable[str] = (),
        on_conflict: Conflict | None = None,
        unique_for: float | timedelta | None = None,
        scope: str | None = None,
        debounce_limit: float | timedelta | None = None,
        supersede: Supersede | None = None,
        findable: bool = False,
        limit: Limit | Iterable[Limit] = (),
        keep_result: bool | float | timedelta = False,
        fair_by: str | None = None,
    ) -> _Decorator: ...
    def task(
        self,
        function: Callable[..., Any] | None = None,
        /,
        *,
        name: str | None = None,
        queue: str = DEFAULT_QUEUE,
        priority: int = 0,
        retry: RetryPolicy | None = None,
        max_attempts: int | None = None,
        timeout: float | timedelta | None = None,
        process: bool = False,
        tags: Iterable[str] = (),
        on_conflict: Conflict | None = None,
        unique_for: float | timedelta | None = None,
        scope: str | None = None,
        debounce_limit: float | timedelta | None = None,
        supersede: Supersede | None = None,
        findable: bool = False,
        limit: Limit | Iterable[Limit] = (),
        keep_result: bool | float | timedelta = False,
        fair_by: str | None = None,
    ) -> Task[..., Any] | _Decorator:
        """Register a function as a task: `@app.task` or `@app.task(queue="mail", ...)`.

        Coroutines run in the worker's event loop, plain functions in threads. A first parameter
        annotated `Job` is given the job; callers leave it out.

        Parameters:
            name: what jobs are stored under; the function's name unless given.
            queue, priority: the lane jobs go to; the smaller priority runs first.
            retry, max_attempts: when a failed job runs again, and how often; ten times at most.
            timeout: seconds (or a `timedelta`) an attempt may take; None for no limit.
            process: run in a child process, which a timeout can kill.
            tags: given to every job of this task.
            on_conflict, unique_for, scope, debounce_limit: what a key means; see `Task.using`.
            supersede: instead: what a newer job of a key makes redundant; see `Supersede`.
            findable: keep a fingerprint of the arguments, for `find`.
            limit, fair_by: how many run at once, or start in a time; whose jobs take turns.
            keep_result: keep what is returned: True as long as the history, or for so many seconds.

        Raises:
            InvalidTask: the name is taken, or the function cannot be a task.
            InvalidJob, InvalidLimit: an option is out of its range.
        """
        usual = Unique(supersede=supersede)
        options = TaskOptions(
            queue=queue,
            priority=priority,
            retry=policy_of(retry, max_attempts),
            timeout=length_of_time("timeout", timeout),
            process=process,
            tags=several_tags(tags),
            unique=uniqueness(usual, on_conflict, unique_for, scope, debounce_limit),
            findable=findable,
            limits=several_limits(limit),
            keep_result=keeping(keep_result),
            fair_by=fair_by,
        )
        return _Decorator(self, name, options).over(function)

    @property
    def tasks(self) -> Mapping[str, Task[..., Any]]:
        """The registered tasks by name, `on_dead` handlers included."""
        return MappingProxyType(self._tasks)

    def task_named(self, name: str) -> Task[..., Any]:
        """Return a registered task. Raises UnknownTask, naming those there are."""
        if name not in self._tasks:
            known = ", ".join(sorted(self._tasks)) or "none at all"
            raise UnknownTask(f"no task {name!r} is registered here; there are: {known}")
        return self._tasks[name]

    def register(self, task: Task[..., Any]) -> None:
        """Add a task.

        Raises:
            InvalidTask: its name is taken.
            InvalidJob, InvalidLimit: an option is out of its range, or a limit's name is taken.
        """
        if task.name in self._tasks:
            raise InvalidTask(
                f"two tasks are called {task.name!r} ({self._tasks[task.name]} and {task});"
                " give one of them a name: @app.task(name=…)"
            )
        check_job(task.using().template, self._max_payload)
        check_unique(task.options.unique)
        if task.options.limits:
            self.limits.check(task)
        self._tasks[task.name] = task

    def around_enqueue(self, middleware: AroundEnqueue) -> AroundEnqueue:
        """Add a middleware around every enqueue; see `mutirao.middleware`."""
        self._around_enqueue.append(middleware)
        return middleware

    def around_attempt(self, middleware: AroundAttempt) -> AroundAttempt:
        """Add a middleware around every attempt; see `mutirao.middleware`."""
        self._around_attempt.append(middleware)
        return middleware

    # Enqueueing.

    def submit(self, job: NewJob, conn: object | None = None) -> Handle:
        """Check a job and write it, through `conn` or in a short transaction of its own.

        Raises:
            DuplicateJob: another one has its key, and it was to be the only one.
        """
        opened = self._open(job)
        try:
            (id,) = self.store.enqueue([opened.job], conn)
        except BaseException as error:
            opened.failed(error)
            raise
        return self._handed_in(opened, id)

    async def asubmit(self, job: NewJob, conn: object | None = None) -> Handle:
        """As `submit`, for asynchronous connections and sessions."""
        opened = self._open(job)
        try:
            (id,) = await self.store.aenqueue([opened.job], conn)
        except BaseException as error:
            opened.failed(error)
            raise
        return self._handed_in(opened, id)

    def enqueue_many(self, jobs: Iterable[NewJob], conn: object | None = None) -> list[int]:
        """Enqueue many jobs at once, all or none, and return their ids in order.

        Of one whose key another job has, the id of the job that stands.

        `jobs` may be a generator: it is consumed once, as it is written. With `conn`, in that
        transaction; otherwise in one of its own.

        Raises:
            InvalidJob: one of them does not fit; none was written.
        """
        opened: list[Enqueueing] = []
        try:
            ids = self.store.enqueue(self._open_all(jobs, opened), conn)
        except BaseException as error:
            _all_failed(opened, error)
            raise
        return self._all_handed_in(opened, ids)

    async def aenqueue_many(self, jobs: Iterable[NewJob], conn: object | None = None) -> list[int]:
        """As `enqueue_many`, for asynchronous connections and sessions."""
        opened: list[Enqueueing] = []
        try:
            ids = await self.store.aenqueue(self._open_all(jobs, opened), conn)
        except BaseException as error:
            _all_failed(opened, error)
            raise
        return self._all_handed_in(opened, ids)

    # Working.

    def worker(self, **settings: Any) -> EmbeddedWorker:
        """Return a worker to run inside this program: `async with`, `with`, or `start`/`stop`.

        Parameters:
            settings: those of `WorkerSettings`: queues, concurrency, grace, poll, …
        """
        chosen = _settings(settings)
        return EmbeddedWorker(lambda: self._make_worker(chosen))

    def run_worker(self, **settings: Any) -> int:
        """Run a worker in this process until a signal stops it; return an exit status.

        0: it was stopped. 3: the schema does not fit any more. 5: one of its loops failed. 6: all
        slots were lost (`exit_when_stuck`, 30 seconds unless given). 7: it was ended by force, as
        handlers did not end within `grace` and 15 seconds more.
        """
        chosen = _settings({"exit_when_stuck": EXIT_WHEN_STUCK, **settings})
        return run(lambda: self._make_worker(chosen))

    # Ending.

    async def aclose(self) -> None:
        """Close this loop's connections."""
        await self.store.close()

    def close(self) -> None:
        """Close the connections that synchronous calls opened."""
        self._portal.call(self.store.close)
        self._portal.close()

    # How it is put together.

    def _make_worker(self, settings: WorkerSettings) -> Worker:
        return Worker(
            self.store.twin(settings.concurrency + SPARE_CONNECTIONS, within=settings.call_limit),
            self._notifier,
            self._tasks,
            self._around_attempt,
            settings,
            version("mutirao"),
            self.schedules.declared,
            self.limits.declared,
        )

    def _open(self, job: NewJob) -> Enqueueing:
        opened = Enqueueing(self._around_enqueue, job)
        try:
            check_job(opened.job, self._max_payload)
        except BaseException as error:
            opened.failed(error)
            raise
        return opened

    def _handed_in(self, opened: Enqueueing, id: int) -> Handle:
        how = id.how if isinstance(id, Placed) else "inserted"
        handle = Handle(int(id), opened.job.task, opened.job.queue, how, self)
        opened.done(handle)
        return handle

    def _all_handed_in(self, opened: list[Enqueueing], ids: list[int]) -> list[int]:
        for each, id in zip(opened, ids, strict=False):  # empty without middleware
            self._handed_in(each, id)
        return ids

    def _open_all(self, jobs: Iterable[NewJob], opened: list[Enqueueing]) -> Iterator[NewJob]:
        if not self._around_enqueue:
            for job in jobs:
                check_job(job, self._max_payload)
                yield job
            return
        for job in jobs:
            opened.append(self._open(job))
            yield opened[-1].job


def _settings(given: dict[str, Any]) -> WorkerSettings:
    queues = given.get("queues")
    if isinstance(queues, str):
        raise ConfigurationError(f"queues are {queues!r}; give a list, such as [{queues!r}]")
    return WorkerSettings(**given | {"queues": None if queues is None else tuple(queues)})


def _all_failed(opened: list[Enqueueing], error: BaseException) -> None:
    for each in opened:
        each.failed(error)
