"""The works that are series: rounds under a held snapshot, growing backlogs, and SQLite."""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from benchmarks.peers.bench import Bench, Database, Peer, attempted, record
from benchmarks.peers.calling import CallFailed
from benchmarks.peers.records import Record

PINNED, BACKLOG, SQLITE = "pinned", "backlog", "SQLite"
ROUNDS, SQLITE_DRAIN = "rounds", "drain"
OURS = ("raw", "mutirao")
SQLITE_ONLY = ("huey",)
ON_SQLITE = ("mutirao", "huey")
SIZES = (1_000, 10_000, 100_000, 1_000_000)
LARGEST = 5_000_000  # for ourselves and the limit only
OF_BACKLOG = 20_000  # jobs that are drained of a backlog
_LONGEST_PRELOAD = 60.0  # seconds; peers that would take longer are not given so many
_PINNED_JOBS = 20_000
_PINNED_SECONDS = 0.8  # that a round of a slower peer should last
_PINNED_PATIENCE = 60.0  # seconds of draining; who has needed more makes no further rounds
_SQLITE_JOBS = {"mutirao": 20_000, "huey": 5_000}


def pinned(bench: Bench, peers: Sequence[Peer], rounds: int) -> Iterator[Record]:
    """Enqueue and drain, round after round, while a snapshot and a transaction id are held.

    All peers take turns, each in a database of its own, which its own snapshot pins. One that
    fails leaves, and so does one that has become very slow; both are said.
    """
    with ExitStack() as stack:
        going: dict[str, Callable[[int], Iterator[Record]]] = {}
        for peer in peers:
            database = stack.enter_context(bench.database(peer))
            stack.enter_context(_held(bench, database))
            jobs = min(_PINNED_JOBS, bench.jobs(peer, _PINNED_SECONDS / bench.seconds))
            jobs = _PINNED_JOBS if peer.name in OURS else jobs
            going[peer.name] = partial(_round, peer, database, jobs)
        spent = dict.fromkeys(going, 0.0)
        for number in range(1, rounds + 1):
            for name, do in list(going.items()):
                for found in do(number):
                    yield found
                    spent[name] += found.figures.get("seconds", 0.0)
                    if found.failed is not None:
                        del going[name]
                    elif spent[name] > _PINNED_PATIENCE and number < rounds:
                        del going[name]
                        yield _given_up(name, number, spent[name])


def _given_up(name: str, number: int, seconds: float) -> Record:
    reason = f"ended after round {number}: draining had taken {seconds:,.0f} s by then"
    return Record(peer=name, work=PINNED, variant=ROUNDS, run=number, failed=reason)


def _round(peer: Peer, database: Database, jobs: int, number: int) -> Iterator[Record]:
    def body() -> Iterator[Record]:
        peer.call_only("enqueue", database, jobs=jobs)
        yield record(peer, PINNED, ROUNDS, number, peer.call("drain", database, jobs=jobs))

    return attempted(peer, PINNED, ROUNDS, number, body)


@contextmanager
def _held(bench: Bench, database: Database) -> Iterator[None]:
    with bench.server.connect(database.name) as conn:
        conn.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        conn.execute("SELECT txid_current()")
        yield


def backlog(bench: Bench, peers: Sequence[Peer], runs: int, most: int) -> Iterator[Record]:
    """Drain some jobs while many more wait, up to `most`; ourselves and the limit more still."""
    for size in (*SIZES, LARGEST):
        for peer in peers:
            if size <= most or (size == LARGEST and most == SIZES[-1] and peer.name in OURS):
                body = partial(_backlog, bench, peer, size, runs)
                yield from attempted(peer, BACKLOG, str(size), 1, body)


def _backlog(bench: Bench, peer: Peer, size: int, runs: int) -> Iterator[Record]:
    """Preload once where it lasts for all runs, and for each run where it does not."""
    expected = size / peer.rates["enqueue"]
    if expected > _LONGEST_PRELOAD and peer.name not in OURS:
        raise CallFailed(f"preloading {size:,} jobs would take {expected:,.0f} s")
    jobs = min(OF_BACKLOG, size, bench.jobs(peer))
    at_a_time = runs if size >= runs * jobs * 2 else 1
    for first in range(1, runs + 1, at_a_time):
        with bench.database(peer) as database:
            peer.call_only("enqueue", database, jobs=size)
            for number in range(first, first + at_a_time):
                answer = peer.call("drain", database, jobs=jobs, waiting=size)
                yield record(peer, BACKLOG, str(size), number, answer)


def sqlite(peers: Sequence[Peer], runs: int) -> Iterator[Record]:
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
        database = Database("", url, url)
        peer.set_up(database)
        enqueued = peer.call("enqueue", database, jobs=jobs)
        yield record(peer, SQLITE, "enqueue many", number, enqueued | {"jobs": jobs})
        answer = peer.call("drain", database, jobs=jobs)
        yield record(peer, SQLITE, SQLITE_DRAIN, number, answer)
