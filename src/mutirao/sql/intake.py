"""How jobs get in through a connection that somebody holds: the program's, or the store's own."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import msgspec

from mutirao.errors import SchemaMissing, UnsupportedConnection
from mutirao.job import NewJob
from mutirao.planning import Plan
from mutirao.sql.callers import kinds
from mutirao.sql.callers.steps import (
    AsyncCaller,
    Caller,
    Row,
    Steps,
    SyncCaller,
    Work,
    adrive,
    drive,
)
from mutirao.sql.failures import is_denied, translated
from mutirao.sql.planting import Planting, plant

# What a job's row holds of what was asked, but for its times; in the order of `facts`.
FACTS = (
    "task", "args", "queue", "priority", "max_attempts", "timeout", "key", "tags", "metadata",
    "traceparent", "redrive_of", "on_dead_of", "fingerprint",
)  # fmt: skip


def facts(job: NewJob) -> Row:
    """Return the values of `FACTS` for a job: None, text and numbers, which every driver binds."""
    return (
        job.task, job.args, job.queue, job.priority, job.max_attempts, job.timeout, job.key,
        as_json(job.tags) if job.tags else None,
        as_json(dict(job.metadata)) if job.metadata else None,
        job.traceparent, job.redrive_of, job.on_dead_of, job.fingerprint,
    )  # fmt: skip


def as_json(value: Any) -> str:
    """Return a value as JSON text."""
    return msgspec.json.encode(value).decode()


@dataclass(frozen=True, slots=True)
class DialectIntake:
    """What a dialect contributes: its name, the steps that write jobs, and one error's look."""

    database: str
    steps: Callable[[Iterable[NewJob]], Steps]
    lacks_tables: Callable[[Exception], bool]
    together: Callable[[Steps], Steps]  # all of these steps or none, in whatever transaction
    planting: Planting


class SqlIntake:
    """Writes jobs through any accepted connection to the database of one dialect.

    Never commits a transaction that it finds, and leaves the connection as it was. Where it
    finds none because the connection is in autocommit mode, all jobs of a call are written in
    one transaction. A pending ORM session is not flushed: that happens at its commit, as ever.
    """

    def __init__(self, dialect: str) -> None:
        """`dialect` is the name of a package of `mutirao.sql.dialects`, as SQLAlchemy's backend."""
        self._dialect: DialectIntake = import_module(
            f"mutirao.sql.dialects.{dialect}.intake"
        ).INTAKE
        self._explaining = _Explaining(self._dialect.lacks_tables)

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
            return kinds.run(conn, self._work(lambda: self._dialect.steps(jobs)))

    def enqueue_through(self, jobs: Iterable[NewJob], caller: SyncCaller) -> list[int]:
        """As `enqueue`, through a connection of the store's own."""
        with self._explaining:
            return drive(self._dialect.steps(jobs), caller)

    async def aenqueue(self, jobs: Iterable[NewJob], conn: object) -> list[int]:
        """As `enqueue`, through an asynchronous connection or session."""
        with self._explaining:
            return await kinds.arun(conn, self._work(lambda: self._dialect.steps(jobs)))

    async def aenqueue_through(self, jobs: Iterable[NewJob], caller: AsyncCaller) -> list[int]:
        """As `aenqueue`, through a connection of the store's own."""
        with self._explaining:
            return await adrive(self._dialect.steps(jobs), caller)

    def enqueue_graph(self, plan: Plan, conn: object) -> list[int]:
        """Write a graph, as `enqueue` does jobs; return the ids of its jobs, in order."""
        with self._explaining:
            return kinds.run(conn, self._work(lambda: self._plant(plan)))

    async def aenqueue_graph(self, plan: Plan, conn: object) -> list[int]:
        """As `enqueue_graph`, through an asynchronous connection or session."""
        with self._explaining:
            return await kinds.arun(conn, self._work(lambda: self._plant(plan)))

    def _plant(self, plan: Plan) -> Steps:
        dialect = self._dialect
        return dialect.together(plant(plan, dialect.steps, dialect.planting))

    def _work(self, steps: Callable[[], Steps]) -> Work:
        def work(caller: Caller) -> Steps:
            if caller.database != self._dialect.database:
                raise UnsupportedConnection(
                    f"conn= was given a connection to {caller.database}, but this application "
                    f"keeps its jobs in {self._dialect.database}: pass a connection to that "
                    f"database, or leave conn= out to enqueue in a transaction of its own."
                )
            return steps()

        return work


class _Explaining:
    """Says what to do where a driver says that a table, or a privilege on one, is missing.

    Both are of the set-up, so they are told in our words through a caller's connection, too.
    """

    def __init__(self, lacks_tables: Callable[[Exception], bool]) -> None:
        self._lacks_tables = lacks_tables

    def __enter__(self) -> None:
        """Nothing has to be done."""

    def __exit__(self, _: Any, error: BaseException | None, trace: Any) -> None:
        """Raise SchemaMissing or StoreUnavailable where that is what happened."""
        if not isinstance(error, Exception):
            return
        if is_denied(error) and (translation := translated(error)) is not None:
            raise translation from error
        if self._lacks_tables(error):
            raise SchemaMissing(
                "The database has no Mutirão tables"
                f" ({str(error).partition(chr(10))[0]}): run `mutirao migrate module:app`, or check"
                " that it is the database that you mean."
            ) from error
