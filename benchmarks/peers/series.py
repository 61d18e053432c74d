"""The works that are series: rounds under a held snapshot, growing backlogs, and SQLite."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from benchmarks.peers.bench import Bench, Peer, attempted, record
from benchmarks.peers.calling import Answer, CallFailed
from benchmarks.peers.records import Record
from benchmarks.peers.sites import Database

PINNED, BACKLOG, SQLITE = "pinned", "backlog", "SQLite"
SQLITE_DRAIN = "drain"
OURS = ("raw", "mutirao")
SQLITE_ONLY = ("huey",)
ON_SQLITE = ("mutirao", "huey")
SIZES = (1_000, 10_000, 100_000, 1_000_000)
_LARGE = 100_000  # backlogs that are made once for all runs
# The most jobs that are drained of a backlog; slower peers are given fewer. With 20,000, half a
# second of work, runs differed by more than what waiting jobs cost.
OF_BACKLOG = 60_000
_LONGEST_PRELOAD = 60.0  # seconds; peers that would take longer are not given so many
_PINNED_JOBS = 20_000
# So many times as often ourselves and the limit: within a minute, between the first rounds and the
# last, the host changes by more than the target allows.
_PINNED_TIMES = 3
_PINNED_SECONDS = 0.8  # that a round of a slower peer should last
_PINNED_PATIENCE = 30.0  # seconds of draining; who has needed more makes no further rounds
_SQLITE_JOBS = {"mutirao": 20_000, "huey": 5_000}


def pinned(bench: Bench, peers: Sequence[Peer], runs: int, rounds: int) -> Iterator[Record]:
    """Enqueue and drain, round after round, while a snapshot and a transaction id are held.

    One peer after the other makes all its rounds, alone on the server: side by side they would
    show what the others' dead rows cost, in memory and in vain rounds of autovacuum. That is done
    `runs` times, and more often by ourselves and the limit. Who has become very slow makes no
    further rounds, which is said. The clock of a round stops when the last handler has started:
    asking whether all is settled walks over the dead rows of all rounds, a third of the time by the
    thirtieth.
    """
    for number in range(1, runs * _PINNED_TIMES + 1):
        for peer in peers:
            if number <= runs or peer.name in OURS:
                variant = f"series {number}"
                body = partial(_rounds, bench, peer, variant, rounds)
                yield from attempted(peer, PINNED, variant, 1, body)


def _rounds(bench: Bench, peer: Peer, variant: str, rounds: int) -> Iterator[Record]:
    jobs = min(_PINNED_JOBS, bench.jobs(peer, _PINNED_SECONDS / bench.seconds))
    jobs = _PINNED_JOBS if peer.name in OURS else jobs
    spent = 0.0
    with bench.database(peer) as database, bench.site.held(database):
        for number in range(1, rounds + 1):
            peer.call_only("enqueue", database, jobs=jobs)
            answer = peer.call("drain", database, jobs=jobs, until_started=True)
            found = record(peer, PINNED, variant, number, answer)
            yield found
            spent += found.figures.get("seconds", 0.0)
            if spent > _PINNED_PATIENCE and number < rounds:
                reason = f"ended after round {number}: draining had taken {spent:,.0f} s by then"
                raise CallFailed(reason)


def backlog(bench: Bench, peers: Sequence[Peer], runs: int, most: int) -> Iterator[Record]:
    """Drain some jobs while others wait, up to `most`; ourselves and the limit more still.

    One peer after the other drains of all its backlogs in turns: they are compared with each other,
    and twenty minutes between two of them said more about the host than about the backlog.
    """
    for peer in peers:
        sizes = _sizes(peer, most, bench.site.largest)
        with ExitStack() as lent:
            large: dict[int, Database] = {}
            for size in [size for size in sizes if size >= _LARGE]:
                body = partial(_preload_large, bench, peer, size, large, lent)
                yield from attempted(peer, BACKLOG, str(size), 1, body)
            for number in range(1, runs + 1):
                for size in [size for size in sizes if size < _LARGE or size in large]:
                    body = partial(_backlog, bench, peer, size, number, large)
                    yield from attempted(peer, BACKLOG, str(size), number, body)


def _sizes(peer: Peer, most: int, largest: int | None) -> list[int]:
    sizes = [size for size in SIZES if size <= most]
    if largest is None or most < SIZES[-1] or peer.name not in OURS:
        return sizes
    return [*sizes, largest]


def _preload_large(
    bench: Bench, peer: Peer, size: int, large: dict[int, Database], lent: ExitStack
) -> Iterator[Record]:
    """Add a database that serves all runs; yields no record."""
    preload = size + _of_backlog(bench, peer)
    expected = preload / peer.rates["enqueue"]
    if expected > _LONGEST_PRELOAD and peer.name not in OURS:
        raise CallFailed(f"preloading {preload:,} jobs would take {expected:,.0f} s")
    database = lent.enter_context(bench.database(peer))
    _fill(bench, peer, database, preload)
    large[size] = database
    yield from ()


def _backlog(
    bench: Bench, peer: Peer, size: int, number: int, large: dict[int, Database]
) -> Iterator[Record]:
    """Drain; what was taken from a large backlog is made up for at once.

    Autovacuum should not clear up beside somebody's run. A small one is made anew: some peers take
    more than was asked for, and what they left unfinished stays locked.
    """
    jobs = _of_backlog(bench, peer)
    if (database := large.pop(size, None)) is not None:  # not used again if this fails
        yield record(peer, BACKLOG, str(size), number, _drain(peer, database, size, jobs))
        _fill(bench, peer, database, jobs)
        large[size] = database
        return
    with bench.database(peer) as database:
        _fill(bench, peer, database, size + jobs)
        yield record(peer, BACKLOG, str(size), number, _drain(peer, database, size, jobs))


def _fill(bench: Bench, peer: Peer, database: Database, jobs: int) -> None:
    peer.call_only("enqueue", database, jobs=jobs)
    bench.site.tidy(database)


def _drain(peer: Peer, database: Database, size: int, jobs: int) -> Answer:
    return peer.call("drain", database, jobs=jobs, waiting=size + jobs)


def _of_backlog(bench: Bench, peer: Peer) -> int:
    return min(OF_BACKLOG, bench.jobs(peer))


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
