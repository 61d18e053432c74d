"""One peer at work on a database of its own, and how many jobs it should be given."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from benchmarks.peers import calling, envs
from benchmarks.peers.calling import Answer, CallFailed
from benchmarks.peers.records import Record, figures_of
from benchmarks.peers.sites import Database, Site
from tests.support.servers import ServerFailed

_SPENT = ("seconds", "cpu", "server_cpu", "wal_bytes", "commits", "dead_tuples")
_LATENCY = ("p50", "p90", "p99", "max")
_TRIALS = (300, 2_000, 12_000)  # jobs of a calibration, until they keep a peer busy long enough
_BUSY = 1.0  # seconds; below it, starting and ending weigh too much


@dataclass(slots=True)
class Peer:
    """A peer that is installed."""

    name: str
    command: list[str]
    about: dict[str, Any]
    rates: dict[str, float] = field(default_factory=dict)  # of its calibration, jobs/s

    def call(self, work: str, database: Database, /, **options: object) -> Answer:
        """Let it do a work while the server's gauges are read."""
        return calling.call_measured(self.command, work, database.url, database.watched, **options)

    def call_only(self, work: str, database: Database, /, **options: object) -> Answer:
        """Let it do a work that nobody measures."""
        return calling.call(self.command, work, database.url, **options)

    def set_up(self, database: Database) -> None:
        """Let it create its schema."""
        self.call_only("setup", database)


@dataclass(slots=True)
class Bench:
    """The server's site, how long one run should last, and what is told about progress.

    Parameters:
        seconds: about how long a run should last; slow peers get fewer jobs.
        most: jobs that nobody is given more of.
    """

    site: Site
    seconds: float
    most: int
    tell: Callable[[str], None]

    def peer(self, name: str) -> Peer:
        """Install a peer. Raises NotInstalled or CallFailed."""
        command = envs.command(name, self.site.dialect)
        return Peer(name, command, calling.call(command, "versions"))

    @contextmanager
    def database(self, peer: Peer) -> Iterator[Database]:
        """Lend a fresh database with the peer's schema."""
        with self.site.database() as database:
            peer.set_up(database)
            yield database

    def calibrate(self, peer: Peer) -> None:
        """Find out roughly how fast a peer is."""
        for jobs in _TRIALS:
            with self.database(peer) as database:
                enqueued = peer.call_only("enqueue", database, jobs=jobs)
                drained = peer.call_only("drain", database, jobs=jobs)
            peer.rates = {
                "enqueue": jobs / enqueued["seconds"],
                "drain": jobs / drained["seconds"],
            }
            if drained["seconds"] > _BUSY:
                break
        self.tell(
            f"{peer.name}: drains about {peer.rates['drain']:,.0f} jobs/s,"
            f" gets {self.jobs(peer):,} at a time"
        )

    def jobs(self, peer: Peer, share: float = 1.0, of: str = "drain") -> int:
        """Return how many jobs keep the peer busy for about a run."""
        slowest = min(peer.rates[of], peer.rates["enqueue"])
        jobs = min(slowest * self.seconds * share, self.most)
        return max(int(jobs) // 100 * 100, 200)


def record(peer: Peer, work: str, variant: str, run: int, answer: Answer) -> Record:
    """Make a record of an answer."""
    names = _LATENCY if work == "latency" else _SPENT
    figures = figures_of(answer, names)
    return Record(
        peer=peer.name, work=work, variant=variant, run=run, jobs=int(answer["jobs"]),
        figures=figures,
    )  # fmt: skip


def attempted(
    peer: Peer, work: str, variant: str, run: int, body: Callable[[], Iterator[Record]]
) -> Iterator[Record]:
    """Yield the records of `body`, or one that says why it failed."""
    try:
        yield from body()
    except (CallFailed, ServerFailed) as error:
        yield Record(peer=peer.name, work=work, variant=variant, run=run, failed=str(error))
