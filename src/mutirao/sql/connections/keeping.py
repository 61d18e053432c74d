"""Refuses commits of a handler on a lent connection, and drops idle ones that the server closed.

One listener of an engine, because one for each connection takes 30 µs to add and remove.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Engine, event
from sqlalchemy.exc import DisconnectionError

from mutirao.errors import WrongState
from mutirao.sql.drivers.resting import is_closed

_IS_KEPT = "mutirao_kept"  # the key under which a connection remembers it
_HAS_RESTED = "mutirao_has_rested"


@contextmanager
def kept(connection: Connection) -> Iterator[None]:
    """Refuse commits of this connection in the block."""
    connection.info[_IS_KEPT] = True
    try:
        yield
    finally:
        if not connection.invalidated:
            connection.info.pop(_IS_KEPT, None)


def refuse_kept(engine: Engine) -> None:
    """Refuse commits of an engine's connections while they are `kept`."""
    event.listen(engine, "commit", _refuse)


def leave_closed(engine: Engine) -> None:
    """Make a pool replace a connection that the server closed while it was idle."""
    event.listen(engine, "checkout", _leave_closed)


def _leave_closed(connection: Any, record: Any, proxy: object) -> None:
    """Look at those that have rested: SQLAlchemy gives up if a new one is refused as well."""
    is_new = not record.info.get(_HAS_RESTED)
    record.info[_HAS_RESTED] = True
    if not is_new and is_closed(getattr(connection, "driver_connection", connection)):
        raise DisconnectionError("the server closed the connection while it rested")


def _refuse(connection: Connection) -> None:
    if _IS_KEPT not in connection.info:
        return
    # SQLAlchemy does not roll back after a failed commit, and no commit has reached the database.
    connection.engine.dialect.do_rollback(connection.connection)
    raise WrongState(
        "the connection of a job.transaction() is committed when its block ends, together with the"
        " job; leave the commit out, or use a connection of your own"
    )
