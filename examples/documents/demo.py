"""The promise, shown: every document is published once, complete, and after all of its pages.

    python examples/documents/demo.py

Documents go through three stages on two workers; one worker is killed with SIGKILL in the middle.
Every third document has a smudged page, which stops it and no other; once that is mended, its dead
step is redriven, and the document goes on where it stood. Exit status 0: the promise held.
"""

import os
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

T = TypeVar("T")

DOCUMENTS, PAGES = 12, 5
DEADLINE = 60.0  # seconds

MUTIRAO = (sys.executable, "-m", "mutirao")
WORK = (
    *(*MUTIRAO, "worker", "documents:app", "--log-level", "error"),
    *("--heartbeat", "0.5", "--expiry", "2", "--concurrency", "4"),
)
STATES = "SELECT state, count(*) FROM mutirao_graphs GROUP BY state"
STAGES = "SELECT DISTINCT stage FROM mutirao_graphs WHERE state = 'stopped'"
BUSY_ONES = """
SELECT w.pid FROM mutirao_live l JOIN mutirao_worker w ON w.id = l.worker WHERE l.worker IS NOT NULL
"""
PUBLISHED = "SELECT document, words, at FROM document_publication"
COUNTED = """
SELECT p.document, max(julianday(j.finished_at) - 2440587.5) * 86400 - 0.002
FROM document_publication p
JOIN mutirao_jobs b ON b.task = 'publish' AND json_extract(b.args, '$.document') = p.document
JOIN mutirao_jobs j ON j.graph = b.graph AND j.stage = 'count'
GROUP BY p.document
"""


class House:
    """The programs, and what is in their database."""

    def __init__(self, directory: str) -> None:
        self._file = Path(directory, "documents.db")
        self._environment = os.environ | {"DOCUMENTS_DATABASE": f"sqlite:///{self._file}"}
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

    def ask(self, question: str) -> list[Any]:
        """Return the rows that a query finds."""
        with closing(sqlite3.connect(self._file, timeout=30)) as connection:
            return connection.execute(question).fetchall()

    def mend(self) -> None:
        """Clean all pages."""
        with closing(sqlite3.connect(self._file, timeout=30)) as connection, connection:
            connection.execute("UPDATE document SET smudged = 0")

    def states(self) -> dict[str, int]:
        """Return how many graphs are in which state."""
        return dict(self.ask(STATES))


def main() -> int:
    """Run the demonstration; return the exit status."""
    with (
        TemporaryDirectory(prefix="mutirao-documents-") as directory,
        closing(House(directory)) as house,
    ):
        house.run(*MUTIRAO, "migrate", "documents:app")
        house.run(sys.executable, "documents.py", "tables", str(DOCUMENTS))
        stopped = play(house)
        published = [(int(row[0]), int(row[1]), float(row[2])) for row in house.ask(PUBLISHED)]
        counted = {int(id): float(moment) for id, moment in house.ask(COUNTED)}
        broken = list(flaws(published, counted, stopped))
        if broken:
            print("The promise did NOT hold:", *broken, sep="\n")
            return 1
        print(f"{DOCUMENTS} documents are published, each once, whole, and after all of its pages.")
    return 0


def play(house: House) -> int:
    """Submit documents, with an accident and a repair; return how many were stopped."""
    for _ in range(2):
        house.start(*WORK)
    house.run(sys.executable, "documents.py", "submit", str(DOCUMENTS))
    victim = until(lambda: [int(row[0]) for row in house.ask(BUSY_ONES)], "nobody works")[0]
    print(f"Worker {victim} is at work, and is killed with SIGKILL.")
    house.kill(victim)
    house.start(*WORK)
    until(lambda: "running" not in house.states(), "some documents never came to rest")
    stopped = house.states().get("stopped", 0)
    stages = ", ".join(str(row[0]) for row in house.ask(STAGES))
    print(f"{stopped} documents are stopped at stage {stages}; their pages are cleaned now.")
    house.mend()
    house.run(*MUTIRAO, "redrive", "documents:app", "--state", "dead", "--yes")
    until(lambda: house.states() == {"succeeded": DOCUMENTS}, "some documents never went on")
    return stopped


def until(look: Callable[[], T], complaint: str) -> T:
    """Return what `look` finds, once it finds something; give up after a minute."""
    end = time.monotonic() + DEADLINE
    while not (found := look()):
        if time.monotonic() > end:
            sys.exit(f"The promise did NOT hold: {complaint} within {DEADLINE:.0f} s.")
        time.sleep(0.05)
    return found


def flaws(
    published: list[tuple[int, int, float]], counted: dict[int, float], stopped: int
) -> Iterator[str]:
    """Say in which ways the promise was broken."""
    times = Counter(document for document, _, _ in published)
    if missing := set(range(1, DOCUMENTS + 1)) - times.keys():
        yield f"{len(missing)} documents were never published, the first is {min(missing)}"
    if twice := [document for document, number in times.items() if number > 1]:
        yield f"{len(twice)} documents were published twice, the first is {min(twice)}"
    for document, words, moment in published:
        whole = sum(document + page for page in range(PAGES))
        if words != whole:
            yield f"document {document} has {words} words, not {whole}"
        if moment < counted.get(document, 0.0):
            yield f"document {document} was published before its pages were counted"
    if stopped != DOCUMENTS // 3:
        yield f"{stopped} documents were stopped by a smudged page, not {DOCUMENTS // 3}"


if __name__ == "__main__":
    sys.exit(main())
