"""The promise, shown: every document is indexed as it is now, with few runs, never two at once.

    python examples/search_index/demo.py

Two programs edit the same documents, hundreds of times, while two workers index them; one worker
is killed with SIGKILL in the middle. Then it is counted what the runs have found. Exit status 0:
the promise held.
"""

import os
import sqlite3
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple, TypeVar

T = TypeVar("T")

DOCUMENTS, EDITS, EDITORS = 20, 150, 2
DEADLINE = 120.0  # seconds, for a busy machine

MUTIRAO = (sys.executable, "-m", "mutirao")
WORK = (
    *(*MUTIRAO, "worker", "search:app", "--log-level", "warning"),
    *("--heartbeat", "0.5", "--expiry", "2"),
)
UNFINISHED = "SELECT count(*) FROM mutirao_live"
BUSY_ONES = """
SELECT w.pid FROM mutirao_live l JOIN mutirao_worker w ON w.id = l.worker WHERE l.worker IS NOT NULL
"""


class Run(NamedTuple):
    """A run of the indexer."""

    document: int
    version: int
    began: float
    ended: float


class House:
    """The programs, and what is in their database."""

    def __init__(self, directory: str) -> None:
        self._file = Path(directory, "search.db")
        self._environment = os.environ | {"SEARCH_DATABASE": f"sqlite:///{self._file}"}
        self._running: list[subprocess.Popen[bytes]] = []

    def start(self, *command: str) -> subprocess.Popen[bytes]:
        """Start a program beside the example."""
        here = Path(__file__).parent
        program = subprocess.Popen(command, cwd=here, env=self._environment)
        self._running.append(program)
        return program

    def run(self, *command: str) -> None:
        """Run a program to its end."""
        if self.start(*command).wait() != 0:
            sys.exit(f"{' '.join(command)} failed")

    def kill(self, pid: int) -> None:
        """End a program as a power cut would."""
        for program in self._running:
            if program.pid == pid:
                program.kill()
                program.wait()

    def close(self) -> None:
        """Stop whatever still runs."""
        for program in self._running:
            program.terminate()
        for program in self._running:
            program.wait()

    def ask(self, question: str) -> list[tuple[float, ...]]:
        """Return the rows that a query finds."""
        with closing(sqlite3.connect(self._file, timeout=30)) as connection:
            return connection.execute(question).fetchall()

    def runs(self) -> list[Run]:
        """Return what the indexer did, in order."""
        rows = self.ask("SELECT document, version, began, ended FROM search_indexed ORDER BY began")
        return [Run(int(row[0]), int(row[1]), row[2], row[3]) for row in rows]

    def versions(self) -> dict[int, int]:
        """Return the version of every document."""
        return {
            int(id): int(version)
            for id, version in self.ask("SELECT id, version FROM search_document WHERE version > 0")
        }


def main() -> int:
    """Run the demonstration; return the exit status."""
    with (
        TemporaryDirectory(prefix="mutirao-search-") as directory,
        closing(House(directory)) as house,
    ):
        house.run(*MUTIRAO, "migrate", "search:app")
        house.run(sys.executable, "search.py", "tables", str(DOCUMENTS))
        while_edited = play(house)
        broken = list(flaws(house.versions(), house.runs(), while_edited))
        if broken:
            print("The promise did NOT hold:", *broken, sep="\n")
            return 1
        print(
            f"{sum(house.versions().values())} edits of {len(house.versions())} documents took"
            f" {len(house.runs())} runs; each is indexed as it is now, and never twice at once."
        )
    return 0


def play(house: House) -> int:
    """Edit and index, with an accident; return how many runs there were before the last edit."""
    for _ in range(2):
        house.start(*WORK)
    edit = (sys.executable, "search.py", "edit", str(DOCUMENTS), str(EDITS))
    editors = [house.start(*edit) for _ in range(EDITORS)]
    until(lambda: len(house.runs()) >= 2, "nothing was indexed")
    victim = until(lambda: [int(row[0]) for row in house.ask(BUSY_ONES)], "nobody indexes")[0]
    print(f"Worker {victim} is indexing, and is killed with SIGKILL.")
    house.kill(victim)
    house.start(*WORK)
    if any(editor.wait() for editor in editors):
        sys.exit("an editor failed")
    early = len(house.runs())
    print(f"The last edit is made; there were {early} runs until now.")
    until(lambda: house.ask(UNFINISHED) == [(0,)], "some documents were never indexed")
    return early


def until(look: Callable[[], T], complaint: str) -> T:
    """Return what `look` finds, once it finds something; give up after a minute."""
    end = time.monotonic() + DEADLINE
    while not (found := look()):
        if time.monotonic() > end:
            sys.exit(f"The promise did NOT hold: {complaint} within {DEADLINE:.0f} s.")
        time.sleep(0.05)
    return found


def flaws(versions: dict[int, int], runs: list[Run], while_edited: int) -> Iterator[str]:
    """Say in which ways the promise was broken."""
    of: dict[int, list[Run]] = defaultdict(list)
    for run in runs:
        of[run.document].append(run)
    stale = [id for id, version in versions.items() if not of[id] or of[id][-1].version != version]
    if stale:
        yield f"{len(stale)} documents are not indexed as they are now, the first is {stale[0]}"
    twice = [id for id, each in of.items() if any(b.began < a.ended for a, b in pairwise(each))]
    if twice:
        yield f"{len(twice)} documents were indexed twice at once, the first is {twice[0]}"
    if len(runs) >= sum(versions.values()):
        yield f"{len(runs)} runs for {sum(versions.values())} edits are no saving"
    if not while_edited:
        yield "nothing was indexed before the last edit"


if __name__ == "__main__":
    sys.exit(main())
