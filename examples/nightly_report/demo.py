"""The promise, shown: every night has exactly one report, whatever happens.

    python examples/nightly_report/demo.py

A night takes a second here. Three workers see to the reports; the one whose turn it is to look at
the clock is killed with SIGKILL, and later all of them are, for some nights. Then it is counted
what is in the table. Exit status 0: the promise held.
"""

import os
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

T = TypeVar("T")

NIGHT = timedelta(seconds=1)
WORKERS, QUIET, OUTAGE = 3, 2, 2  # the last two in nights
DEADLINE = 120.0  # seconds, for a busy machine

MUTIRAO = (sys.executable, "-m", "mutirao")
WORK = (
    *(*MUTIRAO, "worker", "nightly:app", "--log-level", "warning"),
    *("--heartbeat", "0.5", "--expiry", "2"),
)
WHOSE_TURN = """
SELECT w.pid FROM mutirao_duty d JOIN mutirao_worker w ON w.id = d.worker WHERE d.name = 'schedule'
"""
UNFINISHED = "SELECT count(*) FROM mutirao_live"


class House:
    """The workers, and what is in their database."""

    def __init__(self, directory: str) -> None:
        self._file, self._log = Path(directory, "nightly.db"), Path(directory, "log")
        self._environment = os.environ | {
            "NIGHTLY_DATABASE": f"sqlite:///{self._file}",
            "NIGHTLY_CRON": "* * * * * *",
        }
        self.workers: list[subprocess.Popen[bytes]] = []

    def run(self, *command: str) -> None:
        """Run a command to its end."""
        subprocess.run(command, check=True, cwd=Path(__file__).parent, env=self._environment)

    def hire(self, number: int) -> None:
        """Start workers."""
        with self._log.open("ab") as log:
            self.workers += [
                subprocess.Popen(WORK, cwd=Path(__file__).parent, env=self._environment, stderr=log)
                for _ in range(number)
            ]

    def kill(self, *pids: int) -> None:
        """End workers as a power cut would: they finish nothing and tell nobody."""
        for worker in self.workers:
            if worker.pid in pids:
                worker.kill()
                worker.wait()
        self.workers = [worker for worker in self.workers if worker.pid not in pids]

    def dismiss(self) -> None:
        """Stop all workers."""
        for worker in self.workers:
            worker.terminate()
        for worker in self.workers:
            worker.wait()

    def ask(self, question: str) -> list[int]:
        """Return the numbers that a query finds."""
        with closing(sqlite3.connect(self._file, timeout=30)) as connection:
            return [row[0] for row in connection.execute(question)]

    def nights(self) -> list[datetime]:
        """Return the nights of all reports, in order."""
        with closing(sqlite3.connect(self._file, timeout=30)) as connection:
            rows = connection.execute("SELECT night FROM nightly_report ORDER BY night")
            return [datetime.fromisoformat(row[0]) for row in rows]

    def said(self) -> str:
        """Return the end of what the workers said."""
        return self._log.read_text()[-5_000:]


def main() -> int:
    """Run the demonstration; return the exit status."""
    with TemporaryDirectory(prefix="mutirao-nightly-") as directory:
        house = House(directory)
        house.run(*MUTIRAO, "migrate", "nightly:app")
        house.run(sys.executable, "nightly.py")
        try:
            play(house)
        finally:
            house.dismiss()
        broken = list(flaws(house.nights()))
        if broken:
            print(
                "The promise did NOT hold:", *broken, f"The workers said:\n{house.said()}", sep="\n"
            )
            return 1
        print(f"Every one of {len(house.nights())} nights has exactly one report.")
    return 0


def play(house: House) -> None:
    """Let nights pass, with accidents."""
    house.hire(WORKERS)
    reports(house, QUIET)
    victim = until(lambda: house.ask(WHOSE_TURN), "nobody looked at the clock")[0]
    print(f"Worker {victim} looks at the clock, and is killed with SIGKILL.")
    house.kill(victim)
    reports(house, QUIET)
    print("All workers are killed; nobody is there for some nights.")
    house.kill(*[worker.pid for worker in house.workers])
    time.sleep(OUTAGE * NIGHT.total_seconds())
    house.hire(WORKERS)
    reports(house, OUTAGE + QUIET)
    house.run(*MUTIRAO, "schedules", "pause", "nightly:app", "nightly report")
    until(lambda: house.ask(UNFINISHED) == [0], "some reports were never finished")


def reports(house: House, more: int) -> None:
    """Wait until there are so many more reports."""
    wanted = len(house.nights()) + more
    until(lambda: len(house.nights()) >= wanted, f"there were never {wanted} reports")
    print(f"{len(house.nights())} reports.")


def until(look: Callable[[], T], complaint: str) -> T:
    """Return what `look` finds, once it finds something; give up after a minute."""
    end = time.monotonic() + DEADLINE
    while not (found := look()):
        if time.monotonic() > end:
            sys.exit(f"The promise did NOT hold: {complaint} within {DEADLINE:.0f} s.")
        time.sleep(0.1)
    return found


def flaws(nights: list[datetime]) -> Iterable[str]:
    """Say in which ways the promise was broken."""
    twice = [night for night, times in Counter(nights).items() if times > 1]
    if twice:
        yield f"{len(twice)} nights with more than one report, the first is {twice[0]}"
    missing = (max(nights) - min(nights)) // NIGHT + 1 - len(set(nights)) if nights else 1
    if missing:
        yield f"{missing} nights without a report"


if __name__ == "__main__":
    sys.exit(main())
