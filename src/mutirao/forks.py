"""Takes the sockets of open connections away from forked children.

A child has its parent's sockets, too, and drivers use them when a connection is closed or
collected, at the child's end at the latest: asyncpg and mysqlclient end the session. So the first
thing that a child does is to put sockets that lead nowhere in their places.
"""

import os
import socket
from contextlib import suppress
from typing import Any
from weakref import WeakKeyDictionary

_Socket = tuple[int, int, int]  # its file, and what tells it from others that have its number later
_kept: WeakKeyDictionary[Any, _Socket] = WeakKeyDictionary()


def keep_from_children(connection: object, file: int) -> None:
    """Give no child of this process the socket of a connection, which has this file number."""
    with suppress(OSError):  # it is closed
        _kept[connection] = _at(file)


def _at(file: int) -> _Socket:
    found = os.fstat(file)
    return file, found.st_dev, found.st_ino


def _take_away() -> None:
    """Replace them, without a word to those at the other ends."""
    sockets = list(_kept.values())
    _kept.clear()
    if not sockets:
        return
    with socket.socket(socket.AF_UNIX) as nowhere:
        for each in sockets:
            file = each[0]
            with suppress(OSError):  # it is closed
                if _at(file) == each:
                    os.dup2(nowhere.fileno(), file, inheritable=False)


os.register_at_fork(after_in_child=_take_away)
