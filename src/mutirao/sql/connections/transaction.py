"""`job.transaction()`: the handler's writes and the job's completion in one commit.

Opening and ending are synchronous bodies: plain handlers call them, coroutines run each in one
greenlet. SQLAlchemy's asynchronous engine and session take seven, and half of the time.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.util import greenlet_spawn

from mutirao.errors import StaleRun, StoreUnavailable, WrongState
from mutirao.model.jobs.job import Gives, Job, Wake
from mutirao.model.jobs.outcome import Settlement, completion
from mutirao.model.limits.claims_and_wakes import Settled
from mutirao.ports import Attempt
from mutirao.sql.connections.budget import GiveBack
from mutirao.sql.connections.engines import Engines
from mutirao.sql.connections.keeping import kept
from mutirao.sql.drivers import lending
from mutirao.sql.drivers.failures import judge, translate_errors, translated
from mutirao.sql.drivers.naming import IS_LENT, named

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

Finish = Callable[[Connection, Settlement], set[int]]


def wakes_of(job: Job, settled: set[int]) -> Sequence[Wake]:
    """Return who is to be woken after a job was settled; raise StaleRun if it was not."""
    if not settled:
        raise StaleRun(
            f"job {job.id} ({job.task}) was taken from this attempt (run {job.run}) before"
            " it could commit, so its writes were rolled back; whoever holds it now runs it"
        )
    return settled.woken if isinstance(settled, Settled) else ()


class CompletingTransaction:
    """One transaction, entered with `with` in plain handlers and `async with` in coroutines.

    Leaving the block without an error settles the job in the same transaction and commits. If the
    run is no longer the job's current one, everything is rolled back and StaleRun is raised. Only
    this class commits: a `session.commit()` inside only flushes, and a commit of the connection
    raises, be it SQLAlchemy's or the driver's.
    """

    def __init__(
        self,
        engines: Engines,
        job: Job,
        attempt: Attempt,
        finish: Finish,
        gives: Gives,
    ) -> None:
        self._engines, self._job, self._attempt = engines, job, attempt
        self._finish, self._gives = finish, gives
        self._entered = False
        self._connection: Connection
        self._stack: ExitStack
        self._session: Session | None = None
        self._rolled_back: Callable[[], bool] = lambda: False
        self._woken: Sequence[Wake] = ()
        self._give_back: GiveBack = lambda: None

    def __enter__(self) -> Any:
        """Begin, and return a `Session`, a `Connection` or the driver's own connection."""
        self._enter_once()
        return self._begin()

    def _begin(self) -> Any:
        if self._engines.share is not None:
            self._give_back = self._engines.share.for_transaction_sync()
        self._open(self._engines.sync())
        if self._gives == "session":
            from sqlalchemy.orm import Session

            session = Session(self._connection)
            self._hold(session)
            return session
        return self._connection if self._gives == "connection" else self._lend()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Settle and commit, or roll back."""
        self._close(error)
        self._done(kind)

    async def __aenter__(self) -> Any:
        """Begin, and return an `AsyncSession`, an `AsyncConnection`, or the driver's own."""
        self._enter_once()
        return await self._abegin()

    async def _abegin(self) -> Any:
        if self._gives == "driver" and self._engines.borrowed:
            raise WrongState(
                f"job {self._job.id} ({self._job.task}) is drained on a synchronous connection, so"
                " a coroutine cannot have the driver's own; use the session"
            )
        engine = self._engines.asynchronous()
        if self._engines.share is not None:
            self._give_back = await self._engines.share.for_transaction()
        await greenlet_spawn(self._open, engine.sync_engine)
        if self._gives == "driver":
            return self._lend()
        from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession

        connection = AsyncConnection(engine, self._connection)
        if self._gives == "connection":
            return connection
        session = AsyncSession(connection)
        self._hold(session.sync_session)
        return session

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Settle and commit, or roll back."""
        await self._aclose(error)
        self._done(kind)

    def _enter_once(self) -> None:
        if self._entered:
            raise WrongState("this job.transaction() was entered before; ask for a new one")
        self._entered = True

    def _open(self, engine: Engine) -> None:
        with ExitStack() as stack:
            stack.callback(self._give_back)
            with translate_errors():
                connection = engine.connect()
            self._mark_lent(connection, True)
            stack.enter_context(_cut_off_when_lost())
            stack.enter_context(connection)
            stack.enter_context(connection.begin())
            if not lending.owe(connection) and self._gives == "driver":
                lending.begin(connection)
            stack.enter_context(kept(connection))
            self._connection, self._stack = connection, stack.pop_all()

    def _mark_lent(self, connection: Connection, lent: bool) -> None:
        """Mark whose statements are sent: names of the handler's own are left as they are."""
        if self._engines.names is not None:
            connection.execution_options(**{IS_LENT: lent})

    def _hold(self, session: "Session") -> None:
        self._session = session
        self._stack.callback(session.close)

    def _lend(self) -> Any:
        driver = self._connection.connection.driver_connection
        self._rolled_back = self._stack.enter_context(lending.refusing_ends(driver))
        return driver

    def _close(self, error: BaseException | None) -> None:
        """Settle and commit, or roll back if the block raised; let the connection go."""
        try:
            with self._stack:
                if error is not None:
                    lending.release(self._connection)
                    self._raise(error)
                if self._session is not None:
                    self._flush(self._session)
                if self._gives == "driver":
                    self._require_open()
                self._settle()
        except BaseException as raised:
            if raised is not error:
                raise

    async def _aclose(self, error: BaseException | None) -> None:
        await greenlet_spawn(self._close, error)

    def _raise(self, error: BaseException) -> None:
        """Raise the error, or its meaning if it has cost the driver's own connection."""
        if self._gives == "driver" and lending.is_lost(self._connection):
            self._connection.invalidate(error)
            raise translated(error) or StoreUnavailable("the connection was lost") from error
        raise error

    def _flush(self, session: "Session") -> None:
        """Write what is left. A session that is closed within a savepoint rolls back to it."""
        session.flush()
        if session.in_nested_transaction():
            raise WrongState(
                f"job {self._job.id} ({self._job.task}) left a session.begin_nested() open in its"
                " job.transaction(); expected all to be ended. Use it in a with block, or call"
                " its commit() or rollback()"
            )

    def _require_open(self) -> None:
        if self._rolled_back() or not lending.is_open(self._connection):
            raise self._not_open()

    def _not_open(self) -> WrongState:
        return WrongState(
            f"the transaction of job {self._job.id} ({self._job.task}) was ended inside its"
            " block, or had failed; so the job cannot complete with it"
        )

    def _settle(self) -> None:
        settlement = completion(self._job, self._attempt.started_ago())
        self._mark_lent(self._connection, False)
        with translate_errors():
            settled = self._written(settlement)
        self._woken = wakes_of(self._job, settled)

    def _written(self, settlement: Settlement) -> set[int]:
        """Write it, without SQLAlchemy if no caller waits for the job and no result is kept.

        Without SQLAlchemy the COMMIT may be sent with it; that of a borrowed one is its owner's.
        """
        connection = self._connection
        whole = settlement.keyed or settlement.linked or self._engines.borrowed
        if whole or not lending.is_open(connection):
            return self._finish(connection, settlement)
        steps = self._engines.dialect.rules.complete(settlement)
        try:
            return lending.complete(connection, named(self._engines.names, steps))
        except Exception as error:
            if self._engines.note(judge(error)):
                connection.invalidate(error)
            raise

    def _done(self, kind: type[BaseException] | None) -> None:
        if kind is not None:
            return
        self._attempt.mark_settled(self._woken)


@contextmanager
def _cut_off_when_lost() -> Iterator[None]:
    """Translate an error of a handler's own statement only if the connection must be replaced.

    The handler's own errors, such as a missing table, stay as they are. Settling and the commit are
    ours.
    """
    try:
        yield
    except DBAPIError as error:
        failure, translation = judge(error), translated(error)
        if failure and translation and (failure.reconnect or error.statement is None):
            raise translation from error
        raise
