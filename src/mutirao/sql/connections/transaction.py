"""`job.transaction()`: the handler's writes and the job's completion in one commit."""

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    aclosing,
    asynccontextmanager,
    contextmanager,
)
from types import TracebackType
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, event
from sqlalchemy.exc import DBAPIError

from mutirao.errors import StaleRun, WrongState
from mutirao.model.job import Job, Wake
from mutirao.model.limits import Settled
from mutirao.model.outcome import Settlement, completion
from mutirao.ports import Attempt
from mutirao.sql.connections.engines import Engines
from mutirao.sql.drivers.failures import judge, translate_errors, translated

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

Finish = Callable[[Connection, Settlement], set[int]]


class CompletingTransaction:
    """One transaction, entered with `with` in plain handlers and `async with` in coroutines.

    Leaving the block without an error settles the job in the same transaction and commits. If the
    run is no longer the job's current one, everything is rolled back and StaleRun is raised. Only
    this class commits: a `session.commit()` inside only flushes, and a commit of the connection
    raises.
    """

    def __init__(
        self, engines: Engines, job: Job, attempt: Attempt, finish: Finish, *, session: bool
    ) -> None:
        self._engines, self._job, self._attempt = engines, job, attempt
        self._finish, self._session = finish, session
        self._opened: Any = None
        self._woken: Sequence[Wake] = ()

    def __enter__(self) -> Any:
        """Begin, and return a `Session` or a `Connection`."""
        self._opened = self._once(self._plain())
        return self._opened.__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Settle and commit, or roll back."""
        self._opened.__exit__(kind, error, trace)
        self._done(kind)

    async def __aenter__(self) -> Any:
        """Begin, and return an `AsyncSession` or an `AsyncConnection`."""
        self._opened = self._once(self._asynchronous())
        return await self._opened.__aenter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Settle and commit, or roll back."""
        await self._opened.__aexit__(kind, error, trace)
        self._done(kind)

    @contextmanager
    def _plain(self) -> Iterator["Session | Connection"]:
        with translate_errors():
            connection = self._engines.sync().connect()
        with (
            _cut_off_when_lost(),
            connection,
            connection.begin(),
            _ours_to_commit(connection),
        ):
            if self._session:
                from sqlalchemy.orm import Session

                with Session(connection) as session:
                    yield session
                    session.flush()
            else:
                yield connection
            self._settle(connection)

    @asynccontextmanager
    async def _asynchronous(self) -> AsyncIterator[Any]:
        with translate_errors():
            connection = await self._engines.asynchronous().connect()
        with _cut_off_when_lost():
            async with aclosing(connection), connection.begin():
                with _ours_to_commit(connection.sync_connection):
                    if self._session:
                        from sqlalchemy.ext.asyncio import AsyncSession

                        async with AsyncSession(connection) as session:
                            yield session
                            await session.flush()
                    else:
                        yield connection
                    await connection.run_sync(self._settle)

    def _settle(self, connection: Connection) -> None:
        job = self._job
        with translate_errors():
            settled = self._finish(connection, completion(job, self._attempt.started_ago()))
        if isinstance(settled, Settled):
            self._woken = settled.woken
        if not settled:
            raise StaleRun(
                f"job {job.id} ({job.task}) was taken from this attempt (run {job.run}) before"
                " it could commit, so its writes were rolled back; whoever holds it now runs it"
            )

    def _once(
        self, opened: AbstractContextManager[Any] | AbstractAsyncContextManager[Any]
    ) -> AbstractContextManager[Any] | AbstractAsyncContextManager[Any]:
        if self._opened is not None:
            raise WrongState("this job.transaction() was entered before; ask for a new one")
        return opened

    def _done(self, kind: type[BaseException] | None) -> None:
        if kind is not None:
            return
        if self._woken:
            self._attempt.mark_settled(self._woken)
        else:
            self._attempt.mark_settled()


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


@contextmanager
def _ours_to_commit(connection: Any) -> Iterator[None]:
    event.listen(connection, "commit", _refuse_commit)
    try:
        yield
    finally:
        event.remove(connection, "commit", _refuse_commit)


def _refuse_commit(connection: Connection) -> None:
    # SQLAlchemy does not roll back after a failed commit, and no commit has reached the database.
    connection.connection.rollback()
    raise WrongState(
        "the connection of a job.transaction() is committed when its block ends, together with the"
        " job; leave the commit out, or use a connection of your own"
    )
