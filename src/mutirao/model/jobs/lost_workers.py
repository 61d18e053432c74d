"""Reads the stored count of lost workers: how many ended with a job after it had begun.

A rescue adds one to the count of each job that a vanished worker held, whether its handler had
begun or not, because it cannot know that. So a worker that starts a job which was lost before first
writes a negative count: as many thousands as workers are to be counted then. A rescue after that
adds one as well, and only the first one after such a note counts. Pure. See
docs/adr/0087-starts-after-a-loss.md.
"""

from typing import NamedTuple

NOTE = 1_000
_INTERVAL, _LONGEST = 0.2, 30.0  # seconds


class Losses(NamedTuple):
    """The history of a job's last runs.

    Parameters:
        workers: how many ended in a row while they ran it; the first may not have begun it.
        unbegun: how many more have held it since without beginning it: no attempts.
    """

    workers: int
    unbegun: int


def read(stored: int) -> Losses:
    """Return the meaning of a stored count."""
    if stored >= 0:
        return Losses(min(stored, 1), max(0, stored - 1))
    noted = -(stored // NOTE)
    since = noted * NOTE + stored
    return Losses(noted + min(since, 1), max(0, since - 1))


def noted(workers: int) -> int:
    """Return the count to store when a job starts after this number of workers ended with it."""
    return -NOTE * workers


def postponed_for(number: int) -> float:
    """Return the seconds that the n-th of several suspects waits, as one runs at a time."""
    return min(number * _INTERVAL, _LONGEST)
