"""What workers hold while all is calm: memory, files and sessions, which must not grow."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

from tests.faults.ordeal.fleet import Fleet
from tests.faults.ordeal.plan import Plan

PAGE = os.sysconf("SC_PAGE_SIZE")
WARM = 60.0  # seconds that a process takes to have seen everything once
ENOUGH = 9  # looks that tell a tendency
SESSIONS = 42  # that a worker may keep, as the documents say
OWN_SOCKETS = 8  # by which event loops and threads wake each other
# Growth from the first third of a process's looks to the last that is still none.
MORE_MEMORY = 25.0  # megabytes
MORE_FILES = 8
MORE_SQLITE_FILES = 2 * SESSIONS + MORE_FILES  # a connection that is kept has two


class Measure(NamedTuple):
    """What one process holds: megabytes, open files, and sockets."""

    memory: float
    files: int
    sockets: int


class Vigil:
    """Gathers measures of the workers, and of all their sessions together."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._measures: defaultdict[str, list[Measure]] = defaultdict(list)
        self._sessions: list[int] = []

    def look(self, fleet: Fleet, sessions: int) -> None:
        """Take the measure of each worker that has run for a while."""
        ages = fleet.ages()
        for place, process in fleet.running().items():
            if ages.get(place, 0) > WARM and (found := measure(process.pid)) is not None:
                self._measures[f"worker {place} (pid {process.pid})"].append(found)
        self._sessions.append(sessions)

    def lines(self) -> Iterator[str]:
        """Yield how the measures went, for those processes that lived long enough."""
        for who, found in self._measures.items():
            if len(found) >= ENOUGH:
                (memory, last), files = ends(m.memory for m in found), ends(m.files for m in found)
                yield (
                    f"{who}: {memory:.0f} MB at first, {last:.0f} MB at last; {files[0]:.0f} and"
                    f" {files[1]:.0f} files; {max(m.sockets for m in found)} sockets at most"
                )
        if self._plan.database != "sqlite" and self._sessions:
            yield f"all workers: {max(self._sessions)} sessions at most, while all was calm"

    def problems(self) -> Iterator[str]:
        """Yield what has grown, and what is too much."""
        lite = self._plan.database == "sqlite"
        for who, found in self._measures.items():
            yield from _growth(f"{who}: megabytes", (m.memory for m in found), MORE_MEMORY)
            more = MORE_SQLITE_FILES if lite else MORE_FILES
            yield from _growth(f"{who}: open files", (m.files for m in found), more)
            if (most := max(m.sockets for m in found)) > SESSIONS + OWN_SOCKETS:
                yield f"{who} had {most} sockets in a calm"
        most = max(self._sessions, default=0)
        if most > self._plan.workers * SESSIONS:
            yield f"all workers had {most} sessions in a calm; {SESSIONS} each are documented"


def measure(pid: int) -> Measure | None:
    """Return what a process holds; None if it has ended."""
    process = Path("/proc", str(pid))
    try:
        pages = int((process / "statm").read_text().split()[1])
        files = list((process / "fd").iterdir())
    except OSError:
        return None
    sockets = sum(_is_socket(file) for file in files)
    return Measure(pages * PAGE / 1e6, len(files) - sockets, sockets)


def _is_socket(file: Path) -> bool:
    try:
        return os.readlink(file).startswith("socket:")
    except OSError:
        return False  # it was closed meanwhile


def ends(values: Iterator[float]) -> tuple[float, float]:
    """Return the medians of the first and the last third."""
    each = list(values)
    third = max(1, len(each) // 3)
    return median(each[:third]), median(each[-third:])


def _growth(what: str, values: Iterator[float], most: float) -> Iterator[str]:
    each: Sequence[float] = list(values)
    if len(each) >= ENOUGH and (grown := ends(iter(each)))[1] - grown[0] > most:
        yield f"{what} grew from {grown[0]:.0f} to {grown[1]:.0f}"
