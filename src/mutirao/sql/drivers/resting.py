"""Detects idle connections that the server has closed since their last use.

A server ends idle sessions (`wait_timeout`, `idle_session_timeout`), is started again, or has a
pooler in front that does so. The state of the socket shows it without a round trip: 2 µs a look.

With psycopg a non-blocking read is used, which takes half of that and keeps the interpreter's lock:
`poll` releases it, and with sixteen threads that enqueue each look then wakes another thread for
nothing (a twentieth of the processor time of a call).
"""

import select
from collections.abc import Callable
from typing import Any

# Where the system has no event of its own for a closed peer, any readable data of an idle
# connection counts as that: it would be a notice at best.
_CLOSED = getattr(select, "POLLRDHUP", getattr(select, "POLLIN", 0))
_File = Callable[[Any], int]
_Look = Callable[[Any], bool]


def _own(connection: Any) -> int:
    return int(connection.fileno())


def _of_pymysql(connection: Any) -> int:
    return int(connection._sock.fileno())


def _of_asyncpg(connection: Any) -> int:
    return int(connection._transport.get_extra_info("socket").fileno())


def _of_aiomysql(connection: Any) -> int:
    return int(connection._writer.transport.get_extra_info("socket").fileno())


def _by_poll(file_of: _File) -> _Look:
    def look(connection: Any) -> bool:
        file = file_of(connection)
        return file < 0 or _is_at_end(file)

    return look


def _by_reading(connection: Any) -> bool:
    """Read the server's last words, if there are any, and then the end, which raises."""
    wire = connection.pgconn
    wire.consume_input()
    wire.consume_input()
    return False


_FILES: dict[str, _File] = {
    "psycopg": _own,
    "psycopg2": _own,
    "MySQLdb": _own,
    "pymysql": _of_pymysql,
    "asyncpg": _of_asyncpg,
    "aiomysql": _of_aiomysql,
}
_LOOKS = {root: _by_poll(file_of) for root, file_of in _FILES.items()} | {"psycopg": _by_reading}
_met: dict[type, str | None] = {}  # what classes are never changes


def _root(connection: object) -> str | None:
    """Return the package of a driver that has a socket; None: it has none."""
    cls = connection.__class__
    if cls not in _met:
        roots = [each.__module__.partition(".")[0] for each in cls.__mro__]
        _met[cls] = next((root for root in roots if root in _FILES), None)
    return _met[cls]


def file_of(connection: object) -> int | None:
    """Return the number of the socket of a driver's open connection; None: it has none."""
    root = _root(connection)
    return None if root is None else _FILES[root](connection)


def is_closed(connection: Any) -> bool:
    """Return whether an unused connection of a driver is closed, at either end."""
    root = _root(connection)
    look = None if root is None else _LOOKS[root]
    if look is None:
        return False
    try:
        return look(connection)
    except Exception:  # noqa: BLE001 (each driver says in its own way that it has no socket)
        return True


def _is_at_end(file: int) -> bool:
    if not hasattr(select, "poll"):
        return bool(select.select([file], [], [], 0)[0])
    poll = select.poll()
    poll.register(file, _CLOSED)
    return bool(poll.poll(0))
