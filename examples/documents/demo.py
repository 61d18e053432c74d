"""The promise, shown: every document is published once, complete, and after all of its pages.

    python examples/documents/demo.py [DATABASE-URL]

Documents go through three stages on two workers; one worker is killed with SIGKILL in the middle.
Every third document has a smudged page, which stops it and no other; once that is mended, its dead
step is redriven, and the document goes on where it stood. Exit status 0: the promise held.
"""

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "shared"))
from house import House, decoded, moment, opened, until

DOCUMENTS, PAGES = 12, 5

MUTIRAO = (sys.executable, "-m", "mutirao")
WORK = (
    *(*MUTIRAO, "worker", "documents:app", "--log-level", "error"),
    *("--heartbeat", "0.5", "--expiry", "2", "--concurrency", "4"),
)
STATES = "SELECT state, count(*) FROM mutirao_graphs GROUP BY state"
STAGES = "SELECT DISTINCT stage FROM mutirao_graphs WHERE state = 'stopped'"
BUSY_ONES = "SELECT pid FROM mutirao_workers WHERE running > 0"
PUBLISHED = "SELECT document, words, at FROM document_publication"
COUNTED = """
SELECT args, finished_at FROM mutirao_jobs
WHERE task = 'count' AND state = 'succeeded'
"""
CLEAN = "UPDATE document SET smudged = false"


def states(house: House) -> dict[str, int]:
    """Return how many graphs are in which state."""
    return dict(house.ask(STATES))


def counted(house: House) -> dict[int, float]:
    """Return when the last page of each document was counted, to a few milliseconds."""
    last: dict[int, float] = {}
    for args, finished in house.ask(COUNTED):
        document, at = decoded(args)["document"], moment(finished).timestamp() - 0.002
        last[document] = max(at, last.get(document, at))
    return last


def main(arguments: list[str]) -> int:
    """Run the demonstration; return the exit status."""
    with opened("documents", Path(__file__).parent, arguments) as house:
        house.run(*MUTIRAO, "migrate", "documents:app")
        house.run(sys.executable, "documents.py", "tables", str(DOCUMENTS))
        stopped = play(house)
        published = [(int(row[0]), int(row[1]), float(row[2])) for row in house.ask(PUBLISHED)]
        broken = list(flaws(published, counted(house), stopped))
        if broken:
            print("The promise did NOT hold:", *broken, sep="\n")
            return 1
        print(f"{DOCUMENTS} documents are published, each once, whole, and after all of its pages.")
    return 0


def play(house: House) -> int:
    """Submit documents, with an accident and a repair; return how many were stopped."""
    house.run(sys.executable, "documents.py", "submit", str(DOCUMENTS))
    for _ in range(2):  # after that, or a busy machine has done it all before anybody looks
        house.start(*WORK)
    victim = until(lambda: [int(row[0]) for row in house.ask(BUSY_ONES)], "nobody works")[0]
    print(f"Worker {victim} is at work, and is killed with SIGKILL.")
    house.kill(victim)
    house.start(*WORK)
    until(lambda: "running" not in states(house), "some documents never came to rest")
    stopped = states(house).get("stopped", 0)
    stages = ", ".join(str(row[0]) for row in house.ask(STAGES))
    print(f"{stopped} documents are stopped at stage {stages}; their pages are cleaned now.")
    house.say(CLEAN)
    house.run(*MUTIRAO, "redrive", "documents:app", "--state", "dead", "--yes")
    until(lambda: states(house) == {"succeeded": DOCUMENTS}, "some documents never went on")
    return stopped


def flaws(
    published: list[tuple[int, int, float]], ends: dict[int, float], stopped: int
) -> Iterator[str]:
    """Say in which ways the promise was broken."""
    times = Counter(document for document, _, _ in published)
    if missing := set(range(1, DOCUMENTS + 1)) - times.keys():
        yield f"{len(missing)} documents were never published, the first is {min(missing)}"
    if twice := [document for document, number in times.items() if number > 1]:
        yield f"{len(twice)} documents were published twice, the first is {min(twice)}"
    for document, words, at in published:
        whole = sum(document + page for page in range(PAGES))
        if words != whole:
            yield f"document {document} has {words} words, not {whole}"
        if at < ends.get(document, 0.0):
            yield f"document {document} was published before its pages were counted"
    if stopped != DOCUMENTS // 3:
        yield f"{stopped} documents were stopped by a smudged page, not {DOCUMENTS // 3}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
