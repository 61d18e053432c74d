"""The promise, shown: every document is indexed as it is now, with few runs, never two at once.

    python examples/search_index/demo.py [DATABASE-URL]

Two programs edit the same documents, hundreds of times, while two workers index them; one worker
is killed with SIGKILL in the middle. Then it is counted what the runs have found. Exit status 0:
the promise held.
"""

import sys
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

sys.path.append(str(Path(__file__).parents[1] / "shared"))
from house import House, opened, until

DOCUMENTS, EDITS, EDITORS = 20, 150, 2

MUTIRAO = (sys.executable, "-m", "mutirao")
WORK = (
    *(*MUTIRAO, "worker", "search:app", "--log-level", "warning"),
    *("--heartbeat", "0.5", "--expiry", "2"),
)
UNFINISHED = "SELECT count(*) FROM mutirao_live"
BUSY_ONES = "SELECT pid FROM mutirao_workers WHERE running > 0"
RUNS = "SELECT document, version, began, ended FROM search_indexed ORDER BY began"
VERSIONS = "SELECT id, version FROM search_document WHERE version > 0"


class Run(NamedTuple):
    """A run of the indexer."""

    document: int
    version: int
    began: float
    ended: float


def runs(house: House) -> list[Run]:
    """Return what the indexer did, in order."""
    return [Run(*row) for row in house.ask(RUNS)]


def main(arguments: list[str]) -> int:
    """Run the demonstration; return the exit status."""
    with opened("search", Path(__file__).parent, arguments) as house:
        house.run(*MUTIRAO, "migrate", "search:app")
        house.run(sys.executable, "search.py", "tables", str(DOCUMENTS))
        while_edited = play(house)
        versions = dict(house.ask(VERSIONS))
        broken = list(flaws(versions, runs(house), while_edited))
        if broken:
            print("The promise did NOT hold:", *broken, sep="\n")
            return 1
        print(
            f"{sum(versions.values())} edits of {len(versions)} documents took"
            f" {len(runs(house))} runs; each is indexed as it is now, and never twice at once."
        )
    return 0


def play(house: House) -> int:
    """Edit and index, with an accident; return how many runs there were before the last edit."""
    for _ in range(2):
        house.start(*WORK)
    edit = (sys.executable, "search.py", "edit", str(DOCUMENTS), str(EDITS))
    editors = [house.start(*edit) for _ in range(EDITORS)]
    until(lambda: len(runs(house)) >= 2, "nothing was indexed")
    victim = until(lambda: [int(row[0]) for row in house.ask(BUSY_ONES)], "nobody indexes")[0]
    print(f"Worker {victim} is indexing, and is killed with SIGKILL.")
    house.kill(victim)
    house.start(*WORK)
    if any(editor.wait() for editor in editors):
        sys.exit("an editor failed")
    early = len(runs(house))
    print(f"The last edit is made; there were {early} runs until now.")
    until(lambda: house.ask(UNFINISHED) == [(0,)], "some documents were never indexed")
    return early


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
    sys.exit(main(sys.argv[1:]))
