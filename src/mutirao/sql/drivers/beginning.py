"""psycopg's connections for transactions of ours: BEGIN is sent with the first statement.

psycopg sends it alone, and waits for its answer: one round trip of four for a handler that writes
one row. In libpq's pipeline mode it takes none. Whatever else is done with the connection first
(`transaction()`, COPY, a server-side cursor, a pipeline) finds a transaction that was begun.
"""

from typing import Any, cast

from psycopg import AsyncConnection, AsyncCursor, Connection, Cursor
from psycopg._preparing import Prepare
from psycopg.abc import PQGen
from psycopg.errors import error_from_result
from psycopg.generators import send
from psycopg.pq import ExecStatus

from mutirao.sql.drivers.ending import can_pipeline, until_sync
from mutirao.sql.drivers.lendable import Lendable

_IDLE, _INTRANS = 0, 2  # libpq's PQTRANS_IDLE and PQTRANS_INTRANS


class Owing(Lendable):
    """A connection whose BEGIN is deferred: `owes` is True from its lending until BEGIN is sent.

    `first` is the execution of a statement that BEGIN may travel with.
    """

    owes = False
    _pipeline: Any
    _num_transactions: int
    _tpc: Any
    first: object = None
    closed: bool
    pgconn: Any

    def lend(self) -> None:
        """Send BEGIN with the first statement."""
        self.owes = True

    def take_back(self) -> None:
        """Do nothing: no caller waits for it."""

    def is_open(self) -> bool:
        """Return whether a statement would be in a transaction that has not failed."""
        return bool(self.owes or self.pgconn.transaction_status == _INTRANS)

    def must_roll_back(self) -> bool:
        """Forget a BEGIN that was not sent; return whether the connection is open."""
        self.owes = False
        return not self.closed

    def is_lost(self) -> bool:
        """Return whether it is closed."""
        return self.closed

    def is_idle(self) -> bool:
        """Return whether it is in no transaction and does nothing."""
        return bool(self.pgconn.transaction_status == _IDLE)

    def has_ended(self) -> bool:
        """Return whether a commit or a rollback would do nothing: its COMMIT has travelled.

        psycopg finds that out by the way of a statement, and SQLAlchemy asks for both.
        """
        if self.owes or self.refuse is not None or self._pipeline is not None:
            return False
        return self.is_idle() and not (self._num_transactions or self._tpc)

    def _start_query(self) -> PQGen[None]:
        if not self.owes:  # else the cursor sends it, with its statement
            yield from cast(Any, super())._start_query()

    def begin_now(self) -> PQGen[None]:
        """Send BEGIN by itself; a pipeline that psycopg is about to enter has not begun yet."""
        self.owes, pipeline, self._pipeline = False, self._pipeline, None
        try:
            yield from self._start_query()
        finally:
            self._pipeline = pipeline

    def _begun(self, gen: PQGen[Any]) -> PQGen[Any]:
        """Return what psycopg is about to run, in a transaction that is begun."""
        first, self.first = self.first, None
        return self._after_begin(gen) if self.owes and gen is not first else gen

    def _after_begin(self, gen: PQGen[Any]) -> PQGen[Any]:
        yield from self.begin_now()
        return (yield from gen)


class _Beginning:
    """A cursor whose first statement takes the BEGIN with it.

    Not one without values that is not prepared: psycopg sends it in the simple protocol, which
    takes several statements, and has no place in a pipeline.
    """

    _conn: Any

    def _execute_gen(self, *args: Any, **kwargs: Any) -> PQGen[None]:
        gen: PQGen[None] = cast(Any, super())._execute_gen(*args, **kwargs)
        self._conn.first = gen
        return gen

    def _maybe_prepare_gen(
        self, pgq: Any, *, prepare: bool | None = None, binary: bool | None = None
    ) -> PQGen[None]:
        conn, rest = self._conn, cast(Any, super())
        if conn.owes:
            prep, name = conn._prepared.get(pgq, prepare)
            known = prep is Prepare.YES
            if can_pipeline(conn) and (known or (prep is Prepare.NO and pgq.params)):
                yield from self._with_begin(pgq, prep, name, binary)
                return
            yield from conn.begin_now()
        yield from rest._maybe_prepare_gen(pgq, prepare=prepare, binary=binary)

    def _with_begin(self, pgq: Any, prep: Prepare, name: bytes, binary: bool | None) -> PQGen[None]:
        cursor: Any = self
        conn, pgconn = self._conn, self._conn.pgconn
        pgconn.enter_pipeline_mode()
        pgconn.send_query_params(conn._get_tx_start_command(), None)
        if prep is Prepare.YES:
            cursor._send_query_prepared(name, pgq, binary=binary)
        else:
            cursor._execute_send(pgq, binary=binary)
        key = conn._prepared.maybe_add_to_cache(pgq, prep, name)
        pgconn.pipeline_sync()
        conn.owes = False
        yield from send(pgconn)
        begun, *results = yield from until_sync(pgconn)
        pgconn.exit_pipeline_mode()
        if begun.status == ExecStatus.FATAL_ERROR:
            raise error_from_result(begun, encoding=conn.info.encoding)
        if key is not None:
            conn._prepared.validate(key, prep, name, results)
        cursor._check_results(results)
        cursor._set_results(results)


class BeginningCursor(_Beginning, Cursor[Any]):
    """The cursor of an `OwnConnection`."""


class AsyncBeginningCursor(_Beginning, AsyncCursor[Any]):
    """The cursor of an `OwnAsyncConnection`."""


class OwnConnection(Owing, Connection[Any]):
    """A `psycopg.Connection` of the store."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.cursor_factory = BeginningCursor

    def wait(self, gen: PQGen[Any], *args: Any, **kwargs: Any) -> Any:
        """Run what psycopg runs, after the BEGIN that is owed."""
        return super().wait(self._begun(gen), *args, **kwargs)

    def commit(self) -> None:
        """Commit, if a transaction is open and that is not refused."""
        if not self.has_ended():
            super().commit()

    def rollback(self) -> None:
        """Roll back, if a transaction is open and that is not refused."""
        if not self.has_ended():
            super().rollback()


class OwnAsyncConnection(Owing, AsyncConnection[Any]):
    """A `psycopg.AsyncConnection` of the store."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.cursor_factory = AsyncBeginningCursor

    def wait(self, gen: PQGen[Any], *args: Any, **kwargs: Any) -> Any:
        """Run what psycopg runs, after the BEGIN that is owed."""
        return super().wait(self._begun(gen), *args, **kwargs)

    async def commit(self) -> None:
        """Commit, if a transaction is open and that is not refused."""
        if not self.has_ended():
            await super().commit()

    async def rollback(self) -> None:
        """Roll back, if a transaction is open and that is not refused."""
        if not self.has_ended():
            await super().rollback()
