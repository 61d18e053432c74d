"""`idle`: what a worker costs that has nothing to do."""

import asyncio
from dataclasses import dataclass

from benchmarks.crew import Crew
from benchmarks.figures import Figures, share_of
from benchmarks.ground import ground
from benchmarks.spent import measured


@dataclass(frozen=True, slots=True, kw_only=True)
class Idle:
    """What a worker spends in a minute without jobs: its housekeeping, heartbeats and looks.

    Parameters:
        seconds: how long it was watched.
        statements: a minute.
        client_cpu: seconds of processor time a minute, of the worker.
        server_cpu: likewise, of the database's server.
        commits, wal_bytes: a minute, as in `Gauges`.
    """

    seconds: float
    statements: float
    client_cpu: float
    server_cpu: float | None
    commits: float | None
    wal_bytes: float | None

    def figures(self) -> Figures:
        """Return them, and the first two as people speak of them."""
        return {
            "statements/min": self.statements,
            "statements/s": self.statements / 60,
            "client CPU, s/min": self.client_cpu,
            "client CPU, % of a core": self.client_cpu / 60 * 100,
            "server CPU, s/min": self.server_cpu,
            "commits/min": self.commits,
            "WAL, bytes/min": self.wal_bytes,
        }


async def idle(url: str, *, seconds: float = 60.0, settling: float = 5.0) -> Idle:
    """Watch a worker on a database without jobs.

    Parameters:
        url: a database that a benchmark may use, see `Ground.prepare`.
        seconds: for how long.
        settling: seconds before that, in which it does what it does once.

    Raises:
        MutiraoError: the database is not ours to use.
    """
    async with ground(url) as place, Crew(url) as crew:
        await place.fill(())
        await crew.start()
        await asyncio.sleep(settling)
        before = await crew.so_far()
        with measured(url) as spent:
            await asyncio.sleep(seconds)
            after = await crew.so_far()
        await crew.stop()
    minutes = spent.seconds / 60
    return Idle(
        seconds=spent.seconds,
        statements=(after.statements - before.statements) / minutes,
        client_cpu=(after.cpu - before.cpu) / minutes,
        server_cpu=share_of(spent.server_cpu, minutes),
        commits=share_of(spent.commits, minutes),
        wal_bytes=share_of(spent.wal_bytes, minutes),
    )
