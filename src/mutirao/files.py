"""Which file is under a name: it may be deleted, and made anew, while somebody has it open."""

import os

Identity = tuple[int, int] | None  # the device, and the file's number on it


def identity_of(path: str) -> Identity:
    """Return what tells the file at `path` from others; None if there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino
