"""Connections whose commit is ours: a handler that has one cannot commit it.

One listener of an engine, because one for each connection takes 30 µs to add and remove.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, Engine, event

from mutirao.errors import WrongState

_IS_KEPT = "mutirao_kept"  # the key under which a connection remembers it


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
    """Have an engine's connections refuse commits while they are `kept`."""
    event.listen(engine, "commit", _refuse)


def _refuse(connection: Connection) -> None:
    if _IS_KEPT not in connection.info:
        return
    # SQLAlchemy does not roll back after a failed commit, and no commit has reached the database.
    connection.engine.dialect.do_rollback(connection.connection)
    raise WrongState(
        "the connection of a job.transaction() is committed when its block ends, together with the"
        " job; leave the commit out, or use a connection of your own"
    )
