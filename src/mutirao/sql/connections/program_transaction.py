"""`job.transaction(using=…)`: a transaction on the program's own connection, such as Django's.

The program begins and ends it as it always does. The job is settled on the same connection before
its commit: through the program's adapter where that takes plain statements, else through
SQLAlchemy's over the driver's connection beneath, in a savepoint.
"""

from collections.abc import Sequence
from types import TracebackType
from typing import Any

from mutirao.errors import WrongState
from mutirao.model.jobs.job import Job, Transaction, Using, Wake
from mutirao.model.jobs.outcome import Settlement, completion
from mutirao.ports import Attempt
from mutirao.ports.program import ProgramConnections
from mutirao.sql.connections.borrowed import BorrowedEngines
from mutirao.sql.connections.engines import Engines
from mutirao.sql.connections.transaction import Finish, wakes_of
from mutirao.sql.drivers import kinds
from mutirao.sql.drivers.borrowing import Borrowed
from mutirao.sql.drivers.failures import translate_errors
from mutirao.sql.drivers.naming import named


def program_of(program: ProgramConnections | None, job: Job, using: Using) -> ProgramConnections:
    """Return the connections of the program; raise WrongState if it has none."""
    if program is None:
        raise WrongState(
            f"job {job.id} ({job.task}) asked for job.transaction(using={using.alias!r}), and this"
            " application knows of no connections of a framework. In Django use the application of"
            " mutirao.integrations.django; elsewhere leave using= out"
        )
    return program


class ProgramTransaction:
    """A transaction of the program, whose commit completes a job.

    Parameters:
        engines: those of the application, which know the database and the schema.
        running: the job and its attempt.
        finish: writes the outcome of a job that others wait for.
        program: the connections of the program.
        block: the transaction that it begins and ends.
    """

    def __init__(
        self,
        engines: Engines,
        running: tuple[Job, Attempt],
        finish: Finish,
        program: ProgramConnections,
        block: Transaction[Any, Any],
    ) -> None:
        self._engines, self._finish = engines, finish
        self._job, self._attempt = running
        self._program, self._block = program, block
        self._conn: Any = None
        self._woken: Sequence[Wake] = ()

    def __enter__(self) -> Any:
        """Begin, and return the connection."""
        self._conn = self._block.__enter__()
        return self._conn

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Settle and commit, or roll back."""
        try:
            if error is None:
                self._settle()
        except BaseException as failure:
            self._block.__exit__(type(failure), failure, failure.__traceback__)
            raise
        self._block.__exit__(kind, error, trace)
        self._done(kind)

    async def __aenter__(self) -> Any:
        """Begin, and return the connection, which is used in the thread of synchronous calls."""
        self._conn = await self._block.__aenter__()
        return self._conn

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Settle and commit, or roll back."""
        try:
            if error is None:
                await self._program.call(self._settle)
        except BaseException as failure:
            await self._block.__aexit__(type(failure), failure, failure.__traceback__)
            raise
        await self._block.__aexit__(kind, error, trace)
        self._done(kind)

    def _settle(self) -> None:
        settlement = completion(self._job, self._attempt.started_ago())
        with translate_errors():
            settled = self._written(settlement)
        self._woken = wakes_of(self._job, settled)

    def _written(self, settlement: Settlement) -> set[int]:
        """Write it; keys, graphs and results need the store's own statements."""
        dialect, found = self._engines.dialect, kinds.driver(self._conn).database
        if found != dialect.intake.database:
            raise WrongState(
                f"job {self._job.id} ({self._job.task}) is in {dialect.intake.database}, and using="
                f" names a connection to {found}; name the one with the jobs"
            )
        if not (settlement.keyed or settlement.linked):
            steps = named(self._engines.names, dialect.rules.complete(settlement))
            abroad: Any = dialect.intake.abroad  # the session is the program's
            settled: set[int] = kinds.through(self._conn, abroad(steps))
            return settled
        borrowed = Borrowed(self._conn, dialect.intake.database)
        engines = BorrowedEngines(self._engines.database, self._engines.schema, borrowed)
        try:
            with engines.sync().begin() as connection:
                return self._finish(connection, settlement)
        finally:
            engines.put_back()
            borrowed.give_back()

    def _done(self, kind: type[BaseException] | None) -> None:
        if kind is None:
            self._attempt.mark_settled(self._woken)
