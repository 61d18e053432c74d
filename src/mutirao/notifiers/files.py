"""Notices that files are written to, without looking at them: inotify, which Linux has.

Elsewhere there is none in the standard library, and `watching` says so by giving None.
"""

import asyncio
import ctypes
import logging
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

log = logging.getLogger("mutirao")

# From <sys/inotify.h>, the same on every architecture.
MODIFY = 0x2
MANY = 1 << 16  # bytes of events, read at once


class Watch:
    """Files that are watched. `written` is set when one of them was written to, by anybody."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.written = asyncio.Event()
        asyncio.get_running_loop().add_reader(descriptor, self._heed)

    def forget(self) -> None:
        """Take note of all that was written so far."""
        self.written.clear()
        self._read()

    def _heed(self) -> None:
        self._read()  # unread, it would have the event loop turn without rest
        self.written.set()

    def _read(self) -> None:
        try:
            while os.read(self._descriptor, MANY):
                pass
        except BlockingIOError:  # nothing more
            return

    def close(self) -> None:
        """Watch no longer."""
        asyncio.get_running_loop().remove_reader(self._descriptor)
        os.close(self._descriptor)


@contextmanager
def watching(paths: Sequence[str]) -> Iterator[Watch | None]:
    """Watch those of `paths` that exist; None where the system has no means or none left."""
    descriptor = _descriptor(paths) if sys.platform == "linux" else None
    if descriptor is None:
        yield None
        return
    watch = Watch(descriptor)
    try:
        yield watch
    finally:
        watch.close()


def _descriptor(paths: Sequence[str]) -> int | None:
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor: int = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    if descriptor < 0:
        log.warning("cannot watch %s: %s; looking often", paths[0], os.strerror(ctypes.get_errno()))
        return None
    for path in paths:
        if (
            os.path.exists(path)
            and libc.inotify_add_watch(descriptor, os.fsencode(path), MODIFY) < 0
        ):
            log.warning("cannot watch %s: %s; looking often", path, os.strerror(ctypes.get_errno()))
            os.close(descriptor)
            return None
    return descriptor
