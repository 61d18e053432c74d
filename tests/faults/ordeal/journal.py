"""What handlers noted: every execution, with its begin and its end in monotonic seconds."""

from __future__ import annotations

import threading
from bisect import bisect_right, insort
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from mutirao.model.jobs.job import OutcomeKind


@dataclass(slots=True)
class Execution:
    """One handler that began. `outcome` and `settled` are told by the tables, once they know."""

    job: int
    run: int
    task: str
    key: str
    place: int
    pid: int
    began: float
    ended: float | None = None
    how: str | None = None
    outcome: OutcomeKind | None = None
    settled: float | None = None


class Journal:
    """Reads the notes in a directory, as far as they have come; from any thread."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._read: dict[Path, int] = {}
        self._lock = threading.Lock()
        self._begins: defaultdict[int, list[float]] = defaultdict(list)
        self.executions: dict[tuple[int, int], Execution] = {}
        self.repeated: set[tuple[int, int]] = set()  # the same run of a job began twice

    def read(self) -> None:
        """Take in what has been written since the last time."""
        with self._lock:
            # From the last file to the first: what ends in one has begun in that or before.
            paths = sorted(self._directory.iterdir())
            fresh = [(path, self._fresh(path)) for path in reversed(paths)]
            for path, lines in reversed(fresh):
                place, pid, _ = path.name.split("-")
                for line in lines:
                    self._take(int(place), int(pid), *line.split())

    def all(self) -> list[Execution]:
        """Return all executions."""
        with self._lock:
            return list(self.executions.values())

    def begun_between(self, start: float, end: float) -> int:
        """Count the executions that began between two moments."""
        with self._lock:
            return sum(start <= each.began <= end for each in self.executions.values())

    def first_since(self, moment: float, place: int | None = None) -> float | None:
        """Return when the first execution began after a moment, at a place or at any."""
        with self._lock:
            places = self._begins.values() if place is None else [self._begins[place]]
            found = [b[at] for b in places if (at := bisect_right(b, moment)) < len(b)]
        return min(found, default=None)

    def _fresh(self, path: Path) -> list[str]:
        start = self._read.get(path, 0)
        if path.stat().st_size <= start:
            return []
        with path.open("rb") as file:
            file.seek(start)
            whole, newline, _ = file.read().rpartition(b"\n")
        self._read[path] = start + len(whole) + len(newline)
        return whole.decode().splitlines()

    def _take(
        self, place: int, pid: int, what: str, at: str, job: str, run: str, *rest: str
    ) -> None:
        name, moment = (int(job), int(run)), float(at)
        task, key, how = rest
        if what == "end":
            self.executions[name].ended, self.executions[name].how = moment, how
            return
        if name in self.executions:
            self.repeated.add(name)
        self.executions[name] = Execution(*name, task, key, place, pid, moment)
        insort(self._begins[place], moment)
