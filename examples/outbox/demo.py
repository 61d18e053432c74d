"""The promise, shown: each inbox has the last state of each object, in order, with few messages.

    python examples/outbox/demo.py [DATABASE-URL]

A note is edited again and again. One inbox is down at first, one is gone for good, and a worker is
killed with SIGKILL. The inboxes are a web server on this machine. Then what they got is counted.
Exit status 0: the promise held.
"""

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple

sys.path.append(str(Path(__file__).parents[1] / "shared"))
from house import House, opened, until

EDITS = 20  # in each of two rounds
AT_ONCE = 2
MUTIRAO = (sys.executable, "-m", "mutirao")
WORK = (
    *(*MUTIRAO, "worker", "outbox:app", "--log-level", "error"),
    *("--heartbeat", "0.5", "--expiry", "2"),
)
LIVE = "SELECT count(*) FROM mutirao_live"
BUSY_ONES = "SELECT pid FROM mutirao_workers WHERE running > 0"
DEAD = "SELECT attempt, error FROM mutirao_jobs WHERE state = 'dead'"
BACKED_OFF = "SELECT max(attempt) FROM mutirao_jobs WHERE state = 'scheduled'"


class Got(NamedTuple):
    """An activity that came to an inbox, and the status of the answer."""

    inbox: str
    type: str
    object: str
    content: str
    status: int


class World:
    """The inboxes: a web server with a page for each."""

    def __init__(self) -> None:
        self.got: list[Got] = []
        self.most = 0  # requests to one inbox at once
        self.answers = {"/ann": 202, "/bob": 503, "/eve": 410}
        self.held = threading.Event()  # unset: who delivers to ann waits
        self.held.set()
        self._open: dict[str, int] = dict.fromkeys(self.answers, 0)
        self._lock = threading.Lock()

    def take(self, inbox: str, body: bytes) -> int:
        """Note an activity; return the status to answer with."""
        with self._lock:
            self._open[inbox] += 1
            self.most = max(self.most, self._open[inbox])
        if inbox == "/ann":
            self.held.wait()
        with self._lock:
            self._open[inbox] -= 1
            status = self.answers[inbox]
            self.got.append(Got(inbox, status=status, **json.loads(body)))
        return status

    def taken(self, inbox: str) -> list[Got]:
        """Return what an inbox has taken, in order."""
        return [each for each in self.got if each.inbox == inbox and each.status == 202]


@contextmanager
def serving(world: World) -> Iterator[str]:
    """Serve the inboxes; lend their address."""

    class Inbox(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(world.take(self.path, body))
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *arguments: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Inbox) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            world.held.set()
            server.shutdown()


def main(arguments: list[str]) -> int:
    """Run the demonstration; return the exit status."""
    world = World()
    with serving(world) as address, opened("outbox", Path(__file__).parent, arguments) as house:
        house.run(*MUTIRAO, "migrate", "outbox:app")
        last = play(house, world, address)
        broken = list(flaws(world.got, world.most, house.ask(DEAD), last))
    if broken:
        print("The promise did NOT hold:", *broken, sep="\n")
        return 1
    some = ", ".join(f"{len(world.taken(inbox))} by {inbox[1:]}" for inbox in ("/ann", "/bob"))
    print(
        f"Of {2 * EDITS + 1} activities for each inbox were taken: {some}. Both have the last one."
    )
    return 0


def play(house: House, world: World, address: str) -> str:
    """Edit a note while things go wrong; return its last content."""
    ann, bob, eve = (f"{address}/{name}" for name in ("ann", "bob", "eve"))
    say(house, "Create", "note-1", ["draft"], ann, bob)
    say(house, "Update", "note-1", edits(1), ann, bob)
    say(house, "Create", "note-2", ["a slip of the pen"], ann, bob)
    say(house, "Delete", "note-2", [""], ann, bob)
    say(house, "Create", "note-3", ["are you there?"], eve)
    for _ in range(2):
        house.start(*WORK)
    until(lambda: world.taken("/ann"), "ann was told nothing")
    until(lambda: (house.ask(BACKED_OFF)[0][0] or 0) >= 2, "bob was not tried again")
    world.held.clear()  # a delivery to ann is under way ...
    say(house, "Update", "note-1", edits(2), ann, bob)
    until(lambda: world._open["/ann"], "ann was told nothing more")
    victim = until(lambda: [row[0] for row in house.ask(BUSY_ONES)], "nobody delivers")[0]
    print(f"Worker {victim} is delivering, and is killed with SIGKILL.")
    house.kill(victim)
    world.held.set()
    world.answers["/bob"] = 202
    print("bob is up again.")
    house.start(*WORK)
    until(lambda: house.ask(LIVE) == [(0,)], "some deliveries have not ended")
    say(house, "Update", "note-1", edits(2)[-1:], ann, bob)  # which both have
    until(lambda: house.ask(LIVE) == [(0,)], "some deliveries have not ended")
    return edits(2)[-1]


def say(house: House, type: str, object: str, contents: list[str], *inboxes: str) -> None:
    """Run the program that publishes."""
    house.run(sys.executable, "outbox.py", type, object, "|".join(contents), *inboxes)


def edits(round: int) -> list[str]:
    """Return what the note says after each edit."""
    return [f"edit {round * 1000 + number}" for number in range(EDITS)]


def flaws(got: list[Got], most: int, dead: list[tuple[int, str]], last: str) -> Iterator[str]:
    """Say in which ways the promise was broken; `dead` are attempts and errors of such jobs."""
    for inbox in ("/ann", "/bob"):
        taken = [each for each in got if each.inbox == inbox and each.status == 202]
        told = [each.content for each in taken]
        if not taken or (taken[0].type, taken[-1].content) != ("Create", last):
            yield f"{inbox} begins with {taken[:1]} and ends with {taken[-1:]}"
        if told != sorted(told):
            yield f"{inbox} was told {told}, out of order"
        if len(taken) > EDITS:
            yield f"{inbox} took {len(taken)} activities, so nothing was left out"
        if told.count(last) > 1 + (inbox == "/ann"):  # the killed worker's may have been the last
            yield f"{inbox} was told {last!r} {told.count(last)} times"
    if any(each.object == "note-2" for each in got):
        yield "somebody was told of a note that was deleted before"
    if [(attempt, error[:3]) for attempt, error in dead] != [(1, "410")]:
        yield f"dead are {dead}; expected one delivery to an inbox that is gone, tried once"
    if most > AT_ONCE:
        yield f"an inbox had {most} requests at once"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
