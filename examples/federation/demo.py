"""The promise, shown: a server that was down has, once it is back, what it would have had anyway.

    python examples/federation/demo.py

One server writes notes, another keeps backlinks to them. While the second is down, notes are
written, changed, deleted, added to a collection and removed. The writer's process works its own
outbox, by a worker that is replaced on the way. Exit status 0: the promise held.
"""

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.append(str(Path(__file__).parent / "programs"))
from servers import Reader, Writer

LONG = 120.0  # seconds; only a broken promise waits for it
HOST = "127.0.0.1"
EDITS = 8


def main() -> int:
    """Show it."""
    with TemporaryDirectory() as place:
        reader = Reader()
        reader.up()
        writer = Writer(Path(place) / "writer.db")
        writer.up()
        found = list(show(writer, reader, Path(place)))
    for each in found:
        print("BROKEN:", each)
    return 1 if found else 0


def show(writer: Writer, reader: Reader, place: Path) -> Iterator[str]:
    """Tell the story; yield what is not as promised."""
    inbox = f"{reader.url}/inbox"
    writer.federation.start(concurrency=4)
    writer.note("Create", "1", "Hello", inbox)
    writer.note("Create", "2", "Bye", inbox)
    until("both notes have arrived", lambda: len(reader.backlinks) == 2)
    print("Two notes are written, and the other server has backlinks to both.")

    reader.down()
    print("It goes down.")
    writer.note("Update", "1", "Hello?", inbox)
    until("that is noticed", lambda: state_of(writer) == "failing")
    print("An update does not arrive: its host is waited for, and nothing else is sent to it.")
    for edit in range(EDITS):
        writer.note("Update", "1", f"Hello, edit {edit}", inbox)
        writer.note("Update", "3", f"New, edit {edit}", inbox)
    writer.note("Create", "4", "Never mind", inbox)
    writer.note("Delete", "4", "", inbox)
    writer.note("Delete", "2", "", inbox)
    writer.note("Add", "1", "", inbox, target="favourites")
    writer.note("Add", "3", "", inbox, target="favourites")
    writer.note("Remove", "3", "", inbox, target="favourites")
    writer.federation.stop()
    writer.federation.start(concurrency=4)
    print("Many activities later its worker stops, and another one starts. Nothing is lost.")
    until("what is redundant is known", lambda: not unsorted(writer))

    reader.up()
    writer.app.hosts.flush(HOST)
    until("all is sent", lambda: state_of(writer) == "up" and not waiting(writer))
    writer.federation.stop()
    sent = reader.got[2:]
    print(f"The other server comes back, and gets {len(sent)} requests for all of that.")
    yield from flaws(writer, reader)
    writer.app.close()
    for server in (reader, writer):
        server.down()
    print("It has the last state of everything, in order.")


def flaws(writer: Writer, reader: Reader) -> Iterator[str]:
    """Yield what is not as promised."""
    if reader.backlinks != writer.notes():
        yield f"backlinks are {reader.backlinks}, notes are {writer.notes()}"
    favourites = {(f"{writer.url}/favourites", f"{writer.url}/notes/1")}
    if reader.members != favourites:
        yield f"favourites are {reader.members}"
    if reader.refused:
        yield f"refused: {reader.refused}"
    if any(each.object.endswith("/4") for each in reader.got):
        yield "somebody was told of a note that was never there"
    edits = [each.content for each in reader.got if each.object.endswith("/1") and each.content]
    if edits != ["Hello", "Hello?", f"Hello, edit {EDITS - 1}"]:
        yield f"of the first note it was told {edits}"
    if len(reader.got) > 10:
        yield f"{len(reader.got)} requests were made"


def state_of(writer: Writer) -> str:
    """Return the state of the other server, as the writer sees it."""
    return next((str(each.state) for each in writer.app.hosts.list()), "up")


def waiting(writer: Writer) -> int:
    """Return how many activities and deliveries wait."""
    return sum(each.waiting for each in writer.app.hosts.list()) + unsorted(writer)


def unsorted(writer: Writer) -> int:
    """Return of how many activities no deliveries were made yet."""
    sent = writer.app.jobs(task="federation.send", limit=None)
    return sum(each.finished_at is None for each in sent)


def until(what: str, is_so: Callable[[], bool]) -> None:
    """Wait for something."""
    end = time.monotonic() + LONG
    while not is_so():
        if time.monotonic() > end:
            sys.exit(f"BROKEN: it is not so that {what}")
        time.sleep(0.05)


if __name__ == "__main__":
    sys.exit(main())
