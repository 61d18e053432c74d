"""The promise, shown: never too many calls for a tenant at once, whatever happens to the workers.

    python examples/tenant_client/demo.py

Two workers make the calls; one is killed with SIGKILL in the middle, and its calls are made again.
Then the calls are counted. Exit status 0: the promise held.
"""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple, TypeVar

T = TypeVar("T")

CALLS, AT_ONCE, BIG = 8, 2, "acme"
TENANTS = 3
DEADLINE = 60.0  # seconds
MUTIRAO = (sys.executable, "-m", "mutirao")
WORK = (
    *(*MUTIRAO, "worker", "client:app", "--log-level", "warning"),
    *("--heartbeat", "0.5", "--expiry", "2"),
)
BUSY_ONES = """
SELECT w.pid FROM mutirao_live l JOIN mutirao_worker w ON w.id = l.worker WHERE l.worker IS NOT NULL
"""
HELD = "SELECT coalesce(sum(running + parked), 0) FROM mutirao_limits"


class Call(NamedTuple):
    """A call that was made."""

    tenant: str
    number: int
    began: float
    ended: float


class House:
    """The programs, and what is in their database and their log."""

    def __init__(self, directory: str) -> None:
        self._file, self._log = Path(directory, "client.db"), Path(directory, "calls.jsonl")
        self._environment = os.environ | {
            "CLIENT_DATABASE": f"sqlite:///{self._file}",
            "CLIENT_LOG": str(self._log),
        }
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
                program.send_signal(signal.SIGKILL)
                program.wait()

    def close(self) -> None:
        """Stop whatever still runs."""
        for program in self._running:
            program.terminate()
        for program in self._running:
            program.wait()

    def ask(self, question: str) -> list[tuple[int, ...]]:
        """Return the rows that a query finds."""
        with closing(sqlite3.connect(self._file, timeout=30)) as connection:
            return connection.execute(question).fetchall()

    def calls(self) -> list[Call]:
        """Return the calls that were made, in order."""
        lines = self._log.read_text().splitlines() if self._log.exists() else []
        return sorted((Call(**json.loads(line)) for line in lines), key=lambda call: call.began)


def main() -> int:
    """Run the demonstration; return the exit status."""
    with (
        TemporaryDirectory(prefix="mutirao-client-") as directory,
        closing(House(directory)) as house,
    ):
        house.run(*MUTIRAO, "migrate", "client:app")
        house.run(sys.executable, "client.py", "enqueue", str(CALLS))
        play(house)
        calls, held = house.calls(), house.ask(HELD)[0][0]
        broken = list(flaws(calls, held, CALLS))
        if broken:
            print("The promise did NOT hold:", *broken, sep="\n")
            return 1
        small = max(call.ended for call in calls if call.tenant != BIG) - calls[0].began
        print(
            f"{len(calls)} calls for {TENANTS} tenants, never more than {AT_ONCE} at once for one;"
            f" those of the small ones were all made after {small:.1f} s of"
            f" {calls[-1].ended - calls[0].began:.1f} s."
        )
    return 0


def play(house: House) -> None:
    """Make the calls, with an accident."""
    for _ in range(2):
        house.start(*WORK)
    until(lambda: len(house.calls()) >= 10, "nothing was called")
    victim = until(lambda: [row[0] for row in house.ask(BUSY_ONES)], "nobody calls")[0]
    print(f"Worker {victim} is calling, and is killed with SIGKILL.")
    house.kill(victim)
    house.start(*WORK)
    unfinished = "SELECT count(*) FROM mutirao_live"
    until(lambda: house.ask(unfinished) == [(0,)], "some calls were never made")


def until(look: Callable[[], T], complaint: str) -> T:
    """Return what `look` finds, once it finds something; give up after a minute."""
    end = time.monotonic() + DEADLINE
    while not (found := look()):
        if time.monotonic() > end:
            sys.exit(f"The promise did NOT hold: {complaint} within {DEADLINE:.0f} s.")
        time.sleep(0.05)
    return found


def flaws(calls: list[Call], held: int, small: int) -> Iterator[str]:
    """Say in which ways the promise was broken; `small` are the calls of a small tenant."""
    of: dict[str, list[Call]] = defaultdict(list)
    for call in calls:
        of[call.tenant].append(call)
    for tenant, each in of.items():
        wanted = small * 10 if tenant == BIG else small
        if len({call.number for call in each}) != wanted:
            yield f"{tenant} had {len({call.number for call in each})} of {wanted} calls"
        most = max(sum(b.began <= a.began < b.ended for b in each) for a in each)
        if most > AT_ONCE:
            yield f"{tenant} had {most} calls at once"
    if len(of) != TENANTS:
        yield f"{len(of)} of {TENANTS} tenants had calls"
    if held:
        yield f"{held} places are still held or waited for"


if __name__ == "__main__":
    sys.exit(main())
