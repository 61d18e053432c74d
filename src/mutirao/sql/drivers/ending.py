"""The last statement of a transaction and its COMMIT, in one round trip of a psycopg connection.

In libpq's pipeline mode both are sent at once, and the server skips the COMMIT if the statement
fails. psycopg's own pipeline sends each of them alone, which wakes the server up three times.

The statement is prepared under a name of ours, which is noted where psycopg notes its own ones: it
deallocates all of them at a rollback, and ours must be known to be gone then.
"""

from functools import lru_cache
from typing import Any, TypeGuard

from psycopg import AsyncConnection, Connection, OperationalError, Pipeline
from psycopg.abc import PQGen
from psycopg.adapt import PyFormat, Transformer
from psycopg.errors import error_from_result
from psycopg.generators import fetch_many, send
from psycopg.pq import ExecStatus, PipelineStatus
from psycopg.pq.abc import PGconn, PGresult

from mutirao.sql.drivers.kinds import numbered
from mutirao.sql.drivers.prepared import name_of
from mutirao.sql.drivers.steps import Execute, Request, Rows

_Any = Connection[Any] | AsyncConnection[Any]


def can_end(request: Request, conn: _Any) -> TypeGuard[Execute]:
    """Return whether this request is a last statement that the COMMIT can travel with.

    Not where psycopg itself would refuse to commit: in a `conn.transaction()` that was not left, or
    in two phases. It reports that only by the error of its `commit()`.
    """
    if not isinstance(request, Execute) or not request.commits:
        return False
    if conn._num_transactions or conn._tpc:
        return False
    return can_pipeline(conn) and not conn._prepared._to_flush


def can_pipeline(conn: _Any) -> bool:
    """Return whether several statements can be sent at once: libpq is new enough, and idle."""
    return conn.pgconn.pipeline_status == PipelineStatus.OFF and Pipeline.is_supported()


def end(conn: _Any, request: Execute) -> PQGen[Rows]:
    """Execute a statement and commit; return its rows, or raise the error of either."""
    pgconn, adapter = conn.pgconn, Transformer(conn)
    values = adapter.dump_sequence(request.params, [PyFormat.TEXT] * len(request.params))
    pgconn.enter_pipeline_mode()
    named = _send(conn, request.sql, values)
    pgconn.send_query_params(b"COMMIT", None)
    pgconn.pipeline_sync()
    yield from send(pgconn)
    results = yield from until_sync(pgconn)
    pgconn.exit_pipeline_mode()
    if named is not None and results[0].status == ExecStatus.COMMAND_OK:
        conn._prepared._names[named] = name_of(named[0])
        del results[0]
    for each in results:
        if each.status == ExecStatus.FATAL_ERROR:
            raise error_from_result(each, encoding=conn.info.encoding)
    adapter.set_pgresult(results[0])
    return adapter.load_rows(0, results[0].ntuples, tuple)


_Key = tuple[bytes, tuple[int, ...]]  # as psycopg has it: the text, and the types of the values


def _send(conn: _Any, sql: str, values: Any) -> _Key | None:
    """Send the statement; return its key if it was prepared with it."""
    pgconn = conn.pgconn
    text, name = _written(sql)
    if conn.prepare_threshold is None:
        pgconn.send_query_params(text, values)
        return None
    key = (text, ())
    known = key in conn._prepared._names
    if not known:
        pgconn.send_prepare(name, text)
    pgconn.send_query_prepared(name, values)
    return None if known else key


@lru_cache
def _written(sql: str) -> tuple[bytes, bytes]:
    """Return the text that is sent, and its name; of the few last statements that there are."""
    text = numbered(sql).encode()
    return text, name_of(text)


def until_sync(pgconn: PGconn) -> PQGen[list[PGresult]]:
    """Return the results of all statements that were sent before the Sync."""
    found: list[PGresult] = []
    while True:
        fetched = yield from fetch_many(pgconn)
        if not fetched:
            raise OperationalError("the server's answer was cut off")
        found += fetched
        if found[-1].status == ExecStatus.PIPELINE_SYNC:
            return found[:-1]
