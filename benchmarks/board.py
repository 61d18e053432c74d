"""Memory that a benchmark shares with its worker processes: who has done how much, and when."""

from collections.abc import Callable
from ctypes import c_double, c_uint64
from multiprocessing.sharedctypes import RawArray
from threading import Lock
from time import perf_counter


class Board:
    """Counts and moments, each slot of them written by one process only.

    Parameters:
        processes: how many there are.
        numbers: for how many numbered jobs it is kept when they began, and (in `before`) how many
            jobs had run by then.

    Moments are `perf_counter()`, which all processes of a machine share.
    """

    def __init__(self, processes: int, numbers: int = 0) -> None:
        self._done = RawArray(c_uint64, processes)
        self._last = RawArray(c_double, processes)
        self.started = RawArray(c_double, max(1, numbers))
        self.before = RawArray(c_uint64, max(1, numbers))

    @property
    def done(self) -> int:
        """How many jobs have run."""
        return sum(self._done)

    @property
    def last(self) -> float:
        """When the latest of them did."""
        last: float = max(self._last)
        return last

    def writer(self, slot: int) -> Callable[[int | None], None]:
        """Return what a process calls for every job, from any of its threads."""
        lock, done, last = Lock(), self._done, self._last
        started, before = self.started, self.before

        def write(number: int | None) -> None:
            now = perf_counter()
            if number is not None:
                before[number], started[number] = sum(done), now
            with lock:
                done[slot] += 1
                last[slot] = now

        return write
