"""Connections that rest between two uses, and that the server may have closed meanwhile.

A server ends idle sessions (`wait_timeout`, `idle_session_timeout`), is started again, or has a
pooler in front that does so. Its end of the socket tells, without a round trip: 2 µs a look.
"""

import select
from collections.abc import Callable
from typing import Any

# Where the system does not tell apart that the other end is closed, whatever can be read of a
# connection that rests counts as that: a notice at best.
_CLOSED = getattr(select, "POLLRDHUP", getattr(select, "POLLIN", 0))
_File = Callable[[Any], int]


def _own(connection: Any) -> int:
    return int(connection.fileno())


def _of_pymysql(connection: Any) -> int:
    return int(connection._sock.fileno())


def _of_asyncpg(connection: Any) -> int:
    return int(connection._transport.get_extra_info("socket").fileno())


def _of_aiomysql(connection: Any) -> int:
    return int(connection._writer.transport.get_extra_info("socket").fileno())


_FILES: dict[str, _File] = {
    "psycopg": _own,
    "psycopg2": _own,
    "MySQLdb": _own,
    "pymysql": _of_pymysql,
    "asyncpg": _of_asyncpg,
    "aiomysql": _of_aiomysql,
}
_met: dict[type, _File | None] = {}  # what classes are never changes


def is_closed(connection: Any) -> bool:
    """Return whether a driver's connection that nobody uses is closed, at whichever end."""
    cls = connection.__class__
    if cls not in _met:
        roots = [each.__module__.partition(".")[0] for each in cls.__mro__]
        _met[cls] = next((_FILES[root] for root in roots if root in _FILES), None)
    file_of = _met[cls]
    if file_of is None:
        return False
    try:
        file = file_of(connection)
    except Exception:  # noqa: BLE001 (each driver says in its own way that it has no socket)
        return True
    return file < 0 or _is_at_end(file)


def _is_at_end(file: int) -> bool:
    if not hasattr(select, "poll"):
        return bool(select.select([file], [], [], 0)[0])
    poll = select.poll()
    poll.register(file, _CLOSED)
    return bool(poll.poll(0))
