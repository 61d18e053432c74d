"""The identity of a file under a name, and notifications of writes to it.

A file may be deleted and made again while somebody has it open: `identity_of` detects that. On
Linux, inotify notifies of writes without polling. The standard library has nothing similar for
other systems; `watching` yields None there.
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
IN_MODIFY = 0x2
BYTES_PER_READ = 1 << 16

Identity = tuple[int, int] | None  # the device and the inode number


def identity_of(path: str) -> Identity:
    """Return the identity of the file at `path`; None if there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


class FileWatch:
    """A set of watched files. `written` is set when any process has written to one of them."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.written = asyncio.Event()
        asyncio.get_running_loop().add_reader(descriptor, self._heed)

    def forget(self) -> None:
        """Clear `written` and discard all events so far."""
        self.written.clear()
        self._read()

    def _heed(self) -> None:
        self._read()  # unread events would keep the event loop busy
        self.written.set()

    def _read(self) -> None:
        try:
            while os.read(self._descriptor, BYTES_PER_READ):
                pass
        except BlockingIOError:  # no more events
            return

    def close(self) -> None:
        """Stop watching."""
        asyncio.get_running_loop().remove_reader(self._descriptor)
        os.close(self._descriptor)


@contextmanager
def watching(paths: Sequence[str]) -> Iterator[FileWatch | None]:
    """Watch those of `paths` that exist; yield None if the system cannot, or has no watch left."""
    descriptor = _descriptor(paths) if sys.platform == "linux" else None
    if descriptor is None:
        yield None
        return
    watch = FileWatch(descriptor)
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
            and libc.inotify_add_watch(descriptor, os.fsencode(path), IN_MODIFY) < 0
        ):
            log.warning("cannot watch %s: %s; looking often", path, os.strerror(ctypes.get_errno()))
            os.close(descriptor)
            return None
    return descriptor
