"""The works that are series: rounds under a held snapshot, growing backlogs, and SQLite."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from benchmarks.peers.bench import Bench, Database, Peer, attempted, record
from benchmarks.peers.records import Record

PINNED, BACKLOG, SQLITE = "pinned", "backlog", "SQLite"
SQLITE_DRAIN = "drain"
SQLITE_ONLY = ("huey",)
ON_SQLITE = ("mutirao", "huey")
SIZES = (1_000, 10_000, 100_000, 1_000_000)
LARGEST = 5_000_000  # for ourselves and the limit only
OF_BACKLOG = 20_000  # jobs that are drained of a backlog
_LONGEST_PRELOAD = 60.0  # seconds; peers that would take longer are not given so many
_PINNED_JOBS = 20_000
_PINNED_SECONDS = 1.5  # that a slow peer's round should last
_SQLITE_JOBS = {"mutirao": 10_000, "huey": 2_000}


def pinned(bench: Bench, peer: Peer, rounds: int) -> Iterator[Record]:
    """Enqueue and drain again and again while a snapshot and a transaction id are held."""
    jobs = min(_PINNED_JOBS, bench.jobs(peer, _PINNED_SECONDS / bench.seconds))

    def body() -> Iterator[Record]:
        with bench.database(peer) as database, _held(bench, database):
            for number in range(1, rounds + 1):
                peer.call("enqueue", database, jobs=jobs)
                answer = peer.call("drain", database, jobs=jobs)
                yield record(peer, PINNED, "rounds", number, answer)

    return attempted(peer, PINNED, "rounds", 1, body)


@contextmanager
def _held(bench: Bench, database: Database) -> Iterator[None]:
    with bench.server.connect(database.watched.rpartition("/")[2]) as conn:
        conn.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        conn.execute("SELECT txid_current()")
        yield


def backlog(bench: Bench, peer: Peer, quick: bool) -> Iterator[Record]:
    """Drain some jobs while many more wait."""
    sizes = SIZES[:-1] if quick else SIZES
    if peer.name in ("raw", "mutirao") and not quick:
        sizes = (*sizes, LARGEST)
    for size in sizes:
        body = partial(_backlog, bench, peer, size)
        yield from attempted(peer, BACKLOG, str(size), 1, body)


def _backlog(bench: Bench, peer: Peer, size: int) -> Iterator[Record]:
    expected = size / peer.rates["enqueue"]
    if size < LARGEST and expected > _LONGEST_PRELOAD:
        reason = f"preloading would take {expected:,.0f} s"
        yield Record(peer=peer.name, work=BACKLOG, variant=str(size), failed=reason)
        return
    jobs = min(OF_BACKLOG, size, bench.jobs(peer))
    with bench.database(peer) as database:
        peer.call("enqueue", database, jobs=size)
        answer = peer.call("drain", database, jobs=jobs, waiting=size)
    yield record(peer, BACKLOG, str(size), 1, answer)


def sqlite(bench: Bench, peers: Sequence[Peer], runs: int) -> Iterator[Record]:
    """Enqueue many and drain on SQLite, in a file of its own for each run."""
    for number in range(1, runs + 1):
        for peer in peers:
            if peer.name in ON_SQLITE:
                body = partial(_sqlite, peer, number)
                yield from attempted(peer, SQLITE, SQLITE_DRAIN, number, body)


def _sqlite(peer: Peer, number: int) -> Iterator[Record]:
    jobs = _SQLITE_JOBS[peer.name]
    with tempfile.TemporaryDirectory(prefix="mutirao-bench-") as folder:
        url = f"sqlite:///{Path(folder) / 'jobs.db'}"
        database = Database(url, url)
        peer.set_up(database)
        enqueued = peer.call("enqueue", database, jobs=jobs)
        yield record(peer, SQLITE, "enqueue many", number, enqueued | {"jobs": jobs})
        answer = peer.call("drain", database, jobs=jobs)
        yield record(peer, SQLITE, SQLITE_DRAIN, number, answer)
