"""Enqueueing through a given connection: the program's, or the store's own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection

from mutirao.errors import SchemaMissing, StoreError, UnsupportedConnection
from mutirao.model.display import MIGRATE
from mutirao.model.jobs.job import NewJob
from mutirao.sql.drivers import kinds
from mutirao.sql.drivers.failures import is_denied, translated
from mutirao.sql.drivers.naming import Names, named
from mutirao.sql.drivers.steps import Driver, Steps, Work
from mutirao.sql.enqueue.expiry import noting
from mutirao.sql.enqueue.graphs import GraphStatements, write_graph
from mutirao.sql.enqueue.inbox import InboxStatements, remember

if TYPE_CHECKING:
    from mutirao.model.graphs.graph_plan import Plan

# Writes jobs through a connection in a transaction, and returns their ids.
Enqueue = Callable[[Iterable[NewJob], Connection], list[int]]


@dataclass(frozen=True, slots=True)
class DialectIntake:
    """A dialect's part of enqueueing: its name, the steps that write jobs, a test of errors.

    `abroad` makes steps independent of what a caller's session has set.
    """

    database: str
    steps: Callable[[Iterable[NewJob]], Steps]
    lacks_tables: Callable[[Exception], bool]
    atomically: Callable[[Steps], Steps]  # runs all of these steps or none, in any transaction
    graph_statements: GraphStatements
    inbox: InboxStatements
    expiry: str  # notes until when jobs are wanted, of a JSON array
    abroad: Callable[[Steps], Steps] = lambda steps: steps


class SqlIntake:
    """The writer of jobs through any accepted connection to the database of one dialect.

    Never commits a transaction that it finds, and leaves the connection as it was. If there is none
    because the connection is in autocommit mode, all jobs of a call are written in one transaction.
    A pending ORM session is not flushed: that happens at its commit, as usual.
    """

    def __init__(self, dialect: DialectIntake, names: Names | None = None) -> None:
        self._dialect, self._names = dialect, names
        self._explaining = _Explaining(
            dialect.lacks_tables, None if names is None else names.schema
        )

    def enqueue(self, jobs: Iterable[NewJob], conn: object) -> list[int]:
        """Write `jobs` through a synchronous connection or session; return their ids, in order.

        `jobs` is consumed once, lazily, and all of them are written or none.

        Raises:
            UnsupportedConnection: `conn` is none of the accepted kinds, is asynchronous, or is
                connected to another kind of database.
            SchemaMissing: the database has no Mutirão tables.
            StoreUnavailable: the role may not write to them.
        """
        with self._explaining:
            return kinds.run(conn, self._work(lambda: self._steps(jobs)))

    async def aenqueue(self, jobs: Iterable[NewJob], conn: object) -> list[int]:
        """Write `jobs` through an asynchronous connection or session; see `enqueue`."""
        with self._explaining:
            return await kinds.arun(conn, self._work(lambda: self._steps(jobs)))

    def steps(self, jobs: Iterable[NewJob]) -> Steps:
        """Write `jobs`, as steps for a connection of the store's own; see `enqueue`."""
        with self._explaining:
            return (yield from named(self._names, self._steps(jobs)))

    def enqueue_graph(self, plan: Plan, conn: object) -> list[int]:
        """Write a graph; return the ids of its jobs, in order. Guarantees as for `enqueue`."""
        with self._explaining:
            return kinds.run(conn, self._work(lambda: self._write_graph(plan)))

    async def aenqueue_graph(self, plan: Plan, conn: object) -> list[int]:
        """Write a graph through an asynchronous connection or session; see `enqueue_graph`."""
        with self._explaining:
            return await kinds.arun(conn, self._work(lambda: self._write_graph(plan)))

    def remember(self, consumer: str, message: str, conn: object) -> bool:
        """Remember a message; return whether it is new. Guarantees as for `enqueue`."""
        with self._explaining:
            [times] = kinds.run(conn, self._remembering(consumer, message))
        return times == 1

    async def aremember(self, consumer: str, message: str, conn: object) -> bool:
        """Remember a message through an asynchronous connection or session; see `remember`."""
        with self._explaining:
            [times] = await kinds.arun(conn, self._remembering(consumer, message))
        return times == 1

    def _remembering(self, consumer: str, message: str) -> Work:
        return self._work(lambda: remember(self._dialect.inbox, consumer, message))

    def _write_graph(self, plan: Plan) -> Steps:
        dialect = self._dialect
        return dialect.atomically(write_graph(plan, self._steps_within, dialect.graph_statements))

    def _steps(self, jobs: Iterable[NewJob]) -> Steps:
        dialect = self._dialect
        return noting(dialect.steps, dialect.atomically, dialect.expiry, jobs)

    def _steps_within(self, jobs: Iterable[NewJob]) -> Steps:
        """Write jobs where all that is written is written, or none of it."""
        dialect = self._dialect
        return noting(dialect.steps, lambda steps: steps, dialect.expiry, jobs)

    def _work(self, steps: Callable[[], Steps]) -> Work:
        def work(driver: Driver) -> Steps:
            if driver.database != self._dialect.database:
                raise UnsupportedConnection(
                    f"conn= was given a connection to {driver.database}, but this application "
                    f"keeps its jobs in {self._dialect.database}: pass a connection to that "
                    f"database, or leave conn= out to enqueue in a transaction of its own."
                )
            return named(self._names, self._dialect.abroad(steps()))

        return work


def is_one(jobs: Iterable[NewJob]) -> bool:
    """Return whether this is a single job, which needs no transaction around it."""
    return isinstance(jobs, list | tuple) and len(jobs) == 1


@contextmanager
def own_errors(jobs: Iterable[NewJob]) -> Iterator[Iterable[NewJob]]:
    """Yield the caller's jobs; an error raised while they are read reaches the caller unchanged.

    For example, an OSError of a file from which jobs are read does not mean that the database is
    away.
    """
    raised: list[BaseException] = []

    def each() -> Iterator[NewJob]:
        try:
            yield from jobs
        except BaseException as error:
            raised.append(error)
            raise

    try:
        yield each()
    except StoreError as error:
        if raised and error.__cause__ is raised[0]:
            raise raised[0] from raised[0].__cause__
        raise


class _Explaining:
    """A context that explains an error about a missing table, or a missing privilege on one.

    Both are errors of the set-up, so the library's error is raised even for a caller's connection.
    """

    def __init__(self, lacks_tables: Callable[[Exception], bool], schema: str | None) -> None:
        self._lacks_tables, self._schema = lacks_tables, schema

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, _: Any, error: BaseException | None, trace: Any) -> None:
        """Raise SchemaMissing or StoreUnavailable if that is the cause."""
        if not isinstance(error, Exception):
            return
        if is_denied(error, self._schema) and (translation := translated(error)) is not None:
            raise translation from error
        if self._lacks_tables(error):
            raise SchemaMissing(
                "The database has no Mutirão tables"
                f" ({str(error).partition(chr(10))[0]}): run {MIGRATE}, or check"
                " that it is the database that you mean."
            ) from error
