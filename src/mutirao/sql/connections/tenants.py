"""`job.tenant_connection()`: a transaction in the database of a job's tenant.

The application returns its URL. That has credentials, so no message of ours repeats it. A
connection is opened for each transaction and closed after it: a worker meets many tenants, and idle
connections would take slots of their servers.
"""

import asyncio
from collections.abc import Callable, Hashable, Iterator
from contextlib import AsyncExitStack, ExitStack, contextmanager
from inspect import isawaitable
from threading import Lock
from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import URL, Connection, make_url
from sqlalchemy.exc import ArgumentError

from mutirao.errors import ConfigurationError, SchemaMissing, WrongState
from mutirao.model.jobs.job import Job
from mutirao.sql.connections.budget import Budget, Share
from mutirao.sql.connections.engines import Engines
from mutirao.sql.connections.urls import refuse_rest

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection

Resolver = Callable[[Job], Any]  # returns a URL, or an awaitable of one
By = Callable[[Job], Hashable]
MAX_REMEMBERED = 1_000  # tenants that are remembered at the same time


class _Known(NamedTuple):
    """An answer, until a monotonic time."""

    url: URL
    until: float


class Tenants:
    """Finds the databases of tenants by an application's function.

    Parameters:
        resolve: returns the URL of the database of a job's tenant.
        by: returns which tenant that is; URLs are cached by it.
        expires: seconds for which they are.
        clock: returns monotonic seconds.
    """

    def __init__(
        self,
        resolve: Resolver,
        by: By | None,
        expires: float,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._resolve, self._by, self._expires, self._clock = resolve, by, expires, clock
        self._lock = Lock()
        self._known: dict[Hashable, _Known] = {}
        self._engines: dict[URL, Engines] = {}

    def open(self, job: Job, budget: Budget | None = None) -> "TenantTransaction":
        """Return a transaction for a job, which waits for a connection of the budget, if any."""
        return TenantTransaction(self, job, budget)

    def find(self, job: Job) -> Engines:
        """Return the database of a job's tenant, in a thread.

        Raises:
            ConfigurationError: the application's function does not return a URL.
        """
        known = self._remembered(job)
        if known is not None:
            return self._at(known)
        answer = self._resolve(job)
        if isawaitable(answer):
            if asyncio.iscoroutine(answer):
                answer.close()  # or Python warns that it was never awaited
            raise ConfigurationError(
                f"the plain handler of job {job.id} ({job.task}) asks where its tenant's database"
                " is, and the function of @app.tenant_database is a coroutine function; make one"
                " of them like the other"
            )
        return self._at(self._remember(job, answer))

    async def afind(self, job: Job) -> Engines:
        """Return the database of a job's tenant, in an event loop; a plain function has a thread.

        Raises:
            ConfigurationError: the application's function does not return a URL.
        """
        known = self._remembered(job)
        if known is not None:
            return self._at(known)
        answer = await asyncio.to_thread(self._resolve, job)
        return self._at(self._remember(job, await answer if isawaitable(answer) else answer))

    def _remembered(self, job: Job) -> URL | None:
        if self._by is None:
            return None
        key = self._by(job)
        with self._lock:
            known = self._known.get(key)
        return known.url if known is not None and known.until > self._clock() else None

    def _remember(self, job: Job, answer: object) -> URL:
        url = _parsed(job, answer)
        if self._by is None:
            return url
        key = self._by(job)
        with self._lock:
            now = self._clock()
            self._known.pop(key, None)
            for other in [*self._known] if len(self._known) >= MAX_REMEMBERED else ():
                if self._known[other].until <= now or len(self._known) >= MAX_REMEMBERED:
                    del self._known[other]
            self._known[key] = _Known(url, now + self._expires)
        return url

    def forget(self, job: Job) -> None:
        """Ask again the next time: the database could not be entered with the last answer."""
        if self._by is not None:
            key = self._by(job)
            with self._lock:
                self._known.pop(key, None)

    def _at(self, url: URL) -> Engines:
        """Return the engines of a database, which keep no connection."""
        with self._lock:
            found = self._engines.pop(url, None) or Engines(url, keeps=False)
            self._engines[url] = found
            if len(self._engines) > MAX_REMEMBERED:
                del self._engines[next(iter(self._engines))]
        return found


class TenantTransaction:
    """One transaction, entered with `with` in plain handlers and `async with` in coroutines.

    An error of the tenant's database is raised as its driver does: it fails the attempt, like any
    error of a handler.
    """

    def __init__(self, tenants: Tenants, job: Job, budget: Budget | None) -> None:
        self._tenants, self._job, self._budget = tenants, job, budget
        self._stack: ExitStack | None = None
        self._async_stack: AsyncExitStack | None = None

    def __enter__(self) -> Connection:
        """Begin, and return a `Connection`."""
        self._enter_once()
        engines = self._tenants.find(self._job)
        with ExitStack() as stack:
            if self._budget is not None and not engines.in_file:
                stack.callback(Share(self._budget, whole=False).for_transaction_sync())
            with self._asking_again():
                connection = stack.enter_context(engines.sync().begin())
            self._stack = stack.pop_all()
        return connection

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Commit, or roll back."""
        if self._stack is not None:
            self._stack.__exit__(kind, error, trace)

    async def __aenter__(self) -> "AsyncConnection":
        """Begin, and return an `AsyncConnection`."""
        self._enter_once()
        engines = await self._tenants.afind(self._job)
        async with AsyncExitStack() as stack:
            if self._budget is not None and not engines.in_file:
                stack.callback(await Share(self._budget, whole=False).for_transaction())
            with self._asking_again():
                connection = await stack.enter_async_context(engines.asynchronous().begin())
            self._async_stack = stack.pop_all()
        return connection

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Commit, or roll back."""
        if self._async_stack is not None:
            await self._async_stack.__aexit__(kind, error, trace)

    @contextmanager
    def _asking_again(self) -> Iterator[None]:
        try:
            yield
        except SchemaMissing:
            self._tenants.forget(self._job)
            raise ConfigurationError(
                f"the database of the tenant of job {self._job.id} ({self._job.task}) is a file"
                " that is not there; make it before jobs need it"
            ) from None
        except Exception:
            self._tenants.forget(self._job)
            raise

    def _enter_once(self) -> None:
        if self._stack is not None or self._async_stack is not None:
            raise WrongState("this job.tenant_connection() was entered before; ask for a new one")


def _parsed(job: Job, answer: object) -> URL:
    """Return a URL; the error names none, as it has credentials."""
    if not isinstance(answer, str | URL):
        raise ConfigurationError(
            f"the function of @app.tenant_database returned {type(answer).__name__} for job"
            f" {job.id} ({job.task}); return a URL"
        )
    try:
        parsed = make_url(answer)
    except (ArgumentError, ValueError):  # a port that is no number
        raise ConfigurationError(
            f"the function of @app.tenant_database returned no valid URL for job {job.id}"
            f" ({job.task}); give one like postgresql+psycopg://user@host/database"
        ) from None
    refuse_rest(parsed, answer)
    return parsed
