"""The SQL store over an SQLite database in the memory of this process.

`capture` and `inline` put one in the place of an application's store. It is deleted when nothing
refers to their results any more.
"""

import sqlite3
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import cache
from typing import Any, TypeVar, cast
from uuid import uuid4
from weakref import finalize

from sqlalchemy import Connection, delete, exists, select

from mutirao.errors import ConfigurationError, StaleRun, UnsupportedConnection, WrongState
from mutirao.model.graphs.graph_plan import Plan
from mutirao.model.jobs.job import Gives, Job, NewJob, Transaction, Using
from mutirao.model.jobs.outcome import completion
from mutirao.model.keys.uniqueness import Placed
from mutirao.model.limits.claims_and_wakes import Settled
from mutirao.ports import Attempt
from mutirao.ports.program import ProgramConnections
from mutirao.sql.connections.engines import Engines
from mutirao.sql.connections.program_transaction import program_of
from mutirao.sql.connections.runner import Runner
from mutirao.sql.schema.tables import live
from mutirao.sql.statements import inbox, job_admin
from mutirao.sql.store.jobs import SqlStore
from mutirao.testing.transactions import MemoryTransaction, SessionFactory

SHARED_MEMORY = (3, 36)  # the version of SQLite from which on threads share a database in memory
R = TypeVar("R")


class MemoryStore(SqlStore):
    """A `mutirao.ports.Store` with a database in memory, for unit tests.

    Keeps every promise of the protocol but durability, and but one commit for several things. May
    be used from several threads and event loops at once; a fork has a copy. Ids count from 1. The
    time is this process's: what moves that for a test moves it here.

    Parameters:
        accept_any_connection: let `enqueue(conn=…)` take whatever the tested code passes. The
            jobs are then there at once, not at that connection's commit, and stay if it rolls
            back. Otherwise a `conn` raises UnsupportedConnection, unless it is the session of
            an open `job.transaction()`. Its jobs are there at once, and gone if that fails.
        session_factory: called for each `job.transaction()`; what it returns is entered for the
            session that the handler gets, and left before the job is completed. A
            `sessionmaker.begin` fits, or `lambda: contextlib.nullcontext(fake)`. Without one,
            `job.transaction()` raises WrongState.
    """

    _within_enqueue = False  # whether handlers run in the caller's transaction

    def __init__(
        self,
        *,
        accept_any_connection: bool = False,
        session_factory: SessionFactory | None = None,
    ) -> None:
        file = f"file:/{uuid4().hex}?vfs=memdb"  # threads share what has a name
        first = _opened(file)
        super().__init__(f"sqlite:///{file}&uri=true")
        self._run_by(InCallersThread(self.engines))
        self._accept_any_connection = accept_any_connection
        self._session_factory = session_factory
        self._children: dict[int, list[int]] = {}  # by the identity of open transactions' sessions
        self._remembered: dict[int, list[tuple[str, str]]] = {}  # by the same
        self.discard = finalize(self, _discard, first, self.engines)

    def clone(self, connections: int = 1, *, within: float | None = None) -> "MemoryStore":
        """Return this store, which may be used from any thread."""
        return self

    async def close(self) -> None:
        """Keep the jobs; `discard()` forgets them."""

    def enqueue(self, jobs: Iterable[NewJob], conn: object | None = None) -> list[int]:
        """Add jobs; return their ids, in order."""
        children = self._enqueued_through(conn)
        ids = super().enqueue(list(jobs))
        if children is not None:
            children += filter(_is_new, ids)
        return ids

    async def aenqueue(self, jobs: Iterable[NewJob], conn: object | None = None) -> list[int]:
        """Enqueue jobs from a coroutine; the same as `enqueue`."""
        return self.enqueue(jobs, conn)

    def enqueue_graph(self, plan: Plan, conn: object | None = None) -> list[int]:
        """Add a graph; return the ids of its jobs, in order."""
        children = self._enqueued_through(conn)
        ids = super().enqueue_graph(plan)
        if children is not None:
            children += ids
        return ids

    async def aenqueue_graph(self, plan: Plan, conn: object | None = None) -> list[int]:
        """Enqueue a graph from a coroutine; the same as `enqueue_graph`."""
        return self.enqueue_graph(plan, conn)

    def remember(self, consumer: str, message: str, conn: object) -> bool:
        """Remember a message at once; it is forgotten if the transaction of a job fails."""
        self._enqueued_through(conn)
        new = self._sender.runner.run_sync(
            lambda own: self._intake.remember(consumer, message, own)
        )
        noted = self._remembered.get(id(conn))
        if new and noted is not None:
            noted.append((consumer, message))
        return new

    async def aremember(self, consumer: str, message: str, conn: object) -> bool:
        """Remember from a coroutine; the same as `remember`."""
        return self.remember(consumer, message, conn)

    def transaction(
        self, job: Job, attempt: Attempt, *, gives: Gives | Using
    ) -> Transaction[Any, Any]:
        """Enter what `session_factory` makes; complete the job afterwards.

        Raises:
            WrongState: there is no `session_factory`.
        """
        if isinstance(gives, Using):
            program = program_of(self.program, job, gives)
            block: Any = program.transaction(gives.alias, nested=self._within_enqueue)
            return MemoryTransaction(block, _Completion(self, job, attempt))
        if self._session_factory is None:
            raise WrongState(
                "job.transaction() was called in a test without a database of the application."
                " Drain this handler's job on a database with its tables, such as an SQLite file,"
                " or say what its session is to be: session_factory=… of inline(app), capture(app)"
                " or MemoryStore."
            )
        return MemoryTransaction(self._session_factory(), _Completion(self, job, attempt))

    def _writes_through(self) -> ProgramConnections | None:
        """Return None: jobs are here at once, and in no transaction of the program."""
        return None

    def _enqueued_through(self, conn: object | None) -> list[int] | None:
        """Return what notes the jobs of an open transaction; None where `conn` is none of one."""
        children = self._children.get(id(conn))
        if children is None and conn is not None and not self._accept_any_connection:
            raise _unknown(conn)
        return children

    def _land(self, children: Sequence[int]) -> None:
        """Know that the transaction is over which has enqueued these jobs."""

    def _take_back(self, children: Sequence[int]) -> None:
        if children:
            self._sender.runner.run_sync(_forget, children)

    def _unremember(self, messages: Sequence[tuple[str, str]]) -> None:
        if messages:
            self._sender.runner.run_sync(inbox.forget, messages)


def at_once(call: Coroutine[Any, Any, R]) -> R:
    """Return the result of a coroutine that never waits, as all calls of a MemoryStore."""
    try:
        call.send(None)
    except StopIteration as ended:
        return cast(R, ended.value)
    call.close()
    raise RuntimeError(f"{call} waited for something; this is a bug of Mutirão")


class InCallersThread(Runner):
    """Runs everything in the caller's thread: it takes less time than having another one do it."""

    async def _in_thread(self, call: Callable[[], R]) -> R:
        return call()


class _Completion:
    """The part of a MemoryStore for a transaction of one of its jobs."""

    def __init__(self, store: MemoryStore, job: Job, attempt: Attempt) -> None:
        self._store, self._job, self._attempt = store, job, attempt
        self._children: list[int] = []
        self._remembered: list[tuple[str, str]] = []

    @contextmanager
    def adopt(self, session: object) -> Iterator[None]:
        self._store._children[id(session)] = self._children
        self._store._remembered[id(session)] = self._remembered
        try:
            yield
        finally:
            del self._store._children[id(session)]
            del self._store._remembered[id(session)]

    def require(self) -> None:
        if not self._store._sender.runner.alone_sync(_is_held, self._job):
            raise _stale(self._job)

    @contextmanager
    def whole(self) -> Iterator[None]:
        try:
            yield
            self._complete()
        except BaseException:
            self._store._take_back(self._children)
            self._store._unremember(self._remembered)
            raise
        self._store._land(self._children)

    def _complete(self) -> None:
        done = completion(self._job, self._attempt.started_ago())
        settled = self._store._sender.runner.run_sync(self._store._settling.finish_one, done)
        if not settled:
            raise _stale(self._job)
        if isinstance(settled, Settled):
            self._attempt.mark_settled(settled.woken)
        else:
            self._attempt.mark_settled()


def _opened(file: str) -> sqlite3.Connection:
    """Return the first connection to a new database; the last one that is closed ends it."""
    made = _template()
    first = sqlite3.connect(file, uri=True, check_same_thread=False)
    with closing(sqlite3.connect(":memory:")) as template:
        template.deserialize(made)
        template.backup(first)
    return first


@cache
def _template() -> bytes:
    """Return an SQLite file with Mutirão's tables. Made once in a process: it takes 0.2 s."""
    from mutirao.sql import migrations  # brings Alembic

    if sqlite3.sqlite_version_info < SHARED_MEMORY:
        wanted = ".".join(map(str, SHARED_MEMORY))
        raise ConfigurationError(
            f"this Python has SQLite {sqlite3.sqlite_version}; mutirao.testing needs {wanted} or"
            " newer. Use another build of Python, or test on a database with mutirao.testing.drain."
        )
    file = f"file:/{uuid4().hex}?vfs=memdb"
    with closing(sqlite3.connect(file, uri=True)) as first:
        migrations.upgrade(f"sqlite:///{file}&uri=true")
        return first.serialize()


def _discard(first: sqlite3.Connection, engines: Engines) -> None:
    engines.close_sync()
    first.close()


def _is_new(id: int) -> bool:
    return not isinstance(id, Placed) or id.written


def _is_held(conn: Connection, job: Job) -> bool:
    held = exists().where(
        live.c.id == job.id, live.c.run == job.run, live.c.claimed_at.is_not(None)
    )
    return bool(conn.scalar(select(held)))


def _forget(conn: Connection, jobs: Sequence[int]) -> None:
    """Delete jobs that never were."""
    conn.execute(delete(live).where(live.c.id.in_(jobs)))
    job_admin.forget(conn, jobs)


def _stale(job: Job) -> StaleRun:
    return StaleRun(
        f"Job {job.id} was taken from run {job.run} of it; its transaction was not completed."
        " Another attempt does the work: leave it to that one."
    )


def _unknown(conn: object) -> UnsupportedConnection:
    return UnsupportedConnection(
        f"conn= was given a {type(conn).__name__}, but this store is in memory and knows no"
        " connections. Leave conn out, or construct MemoryStore(accept_any_connection=True): jobs"
        " are then there at once, not at the commit."
    )
