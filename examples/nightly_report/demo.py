"""The promise, shown: every night has exactly one report, whatever happens.

    python examples/nightly_report/demo.py [DATABASE-URL]

A night takes a second here. Three workers see to the reports; the one whose turn it is to look at
the clock is killed with SIGKILL, and later all of them are, for some nights. Then it is counted
what is in the table. Exit status 0: the promise held.
"""

import sys
import time
from collections import Counter
from collections.abc import Iterable
from datetime import datetime, timedelta
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "shared"))
from house import House, moment, opened, until

NIGHT = timedelta(seconds=1)
WORKERS, QUIET, OUTAGE = 3, 2, 2  # the last two in nights

MUTIRAO = (sys.executable, "-m", "mutirao")
WORK = (
    *(*MUTIRAO, "worker", "nightly:app", "--log-level", "warning"),
    *("--heartbeat", "0.5", "--expiry", "2"),
)
WHOSE_TURN = """
SELECT w.pid FROM mutirao_duty d JOIN mutirao_worker w ON w.id = d.worker WHERE d.name = 'schedule'
"""
UNFINISHED = "SELECT count(*) FROM mutirao_live"
NIGHTS = "SELECT night FROM nightly_report ORDER BY night"


def nights(house: House) -> list[datetime]:
    """Return the nights of all reports, in order."""
    return [moment(night) for (night,) in house.ask(NIGHTS)]


def main(arguments: list[str]) -> int:
    """Run the demonstration; return the exit status."""
    with opened("nightly", Path(__file__).parent, arguments, NIGHTLY_CRON="* * * * * *") as house:
        house.run(*MUTIRAO, "migrate", "nightly:app")
        house.run(sys.executable, "nightly.py")
        play(house)
        broken = list(flaws(nights(house)))
        if broken:
            print("The promise did NOT hold:", *broken, sep="\n")
            return 1
        print(f"Every one of {len(nights(house))} nights has exactly one report.")
    return 0


def play(house: House) -> None:
    """Let nights pass, with accidents."""
    workers = hire(house)
    reports(house, QUIET)
    victim = until(lambda: house.ask(WHOSE_TURN), "nobody looked at the clock")[0][0]
    print(f"Worker {victim} looks at the clock, and is killed with SIGKILL.")
    house.kill(victim)
    reports(house, QUIET)
    print("All workers are killed; nobody is there for some nights.")
    house.kill(*workers)
    time.sleep(OUTAGE * NIGHT.total_seconds())
    hire(house)
    reports(house, OUTAGE + QUIET)
    house.run(*MUTIRAO, "schedules", "pause", "nightly:app", "nightly report")
    until(lambda: house.ask(UNFINISHED) == [(0,)], "some reports were never finished")


def hire(house: House) -> list[int]:
    """Start workers; return their process ids."""
    return [house.start(*WORK).pid for _ in range(WORKERS)]


def reports(house: House, more: int) -> None:
    """Wait until there are so many more reports."""
    wanted = len(nights(house)) + more
    until(lambda: len(nights(house)) >= wanted, f"there were never {wanted} reports")
    print(f"{len(nights(house))} reports.")


def flaws(nights: list[datetime]) -> Iterable[str]:
    """Say in which ways the promise was broken."""
    twice = [night for night, times in Counter(nights).items() if times > 1]
    if twice:
        yield f"{len(twice)} nights with more than one report, the first is {twice[0]}"
    missing = (max(nights) - min(nights)) // NIGHT + 1 - len(set(nights)) if nights else 1
    if missing:
        yield f"{missing} nights without a report"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
