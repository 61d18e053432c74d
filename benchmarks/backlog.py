"""`backlog`: whether draining and claiming keep their pace however many jobs wait."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from time import monotonic, perf_counter

from benchmarks.crew import Crew
from benchmarks.figures import Cost, Figures, Quantiles, prefixed
from benchmarks.ground import ground
from benchmarks.load import Load
from benchmarks.spent import measured
from mutirao.engine.claiming.lane_positions import LaneBook
from mutirao.model.jobs.job import NewWorker
from mutirao.model.jobs.outcome import SUCCEEDED, Settlement
from mutirao.ports import Store

SIZES = (1_000, 10_000, 100_000, 1_000_000)
LATER = 86_400.0  # seconds until what is scheduled for later is due
BATCH = 100  # jobs in each of the claims that are timed
IDENTITY = NewWorker(name="alone", host="", pid=os.getpid(), queues=None, concurrency=1, version="")


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """What was measured with so many jobs waiting behind those that were done.

    Parameters:
        waiting: how many.
        rate: jobs a second that one worker drained, from its start to the last one's run.
        heads: milliseconds that reading the heads of all lanes took.
        claim: how long claims of 100 jobs took, with nobody else at work.
        cost: of what the worker did.
    """

    waiting: int
    rate: float
    heads: float
    claim: Quantiles
    cost: Cost

    def figures(self) -> Figures:
        """Return them by name."""
        shown: Figures = {"jobs/s": self.rate, "reading heads, ms": self.heads}
        return shown | prefixed("claim", self.claim.figures()) | self.cost.each()


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """A point for each size, in order."""

    queues: int
    priorities: int
    scheduled: int
    points: tuple[Waiting, ...]

    def figures(self) -> Figures:
        """Return the figures of each point."""
        found: Figures = {}
        for point in self.points:
            found |= prefixed(f"{point.waiting:,} waiting", point.figures())
        return found


async def backlog(
    url: str,
    *,
    sizes: Sequence[int] = SIZES,
    jobs: int = 20_000,
    claims: int = 200,
    queues: int = 1,
    priorities: int = 1,
    scheduled: int = 0,
) -> Backlog:
    """Measure how fast some jobs are drained and claimed while many more wait.

    Parameters:
        url: a database that a benchmark may use, see `Ground.prepare`.
        sizes: how many jobs wait behind those that are drained; from small to large.
        jobs: drained at each size.
        claims: how many are timed at each size.
        queues, priorities: the jobs are spread evenly over all pairs of these.
        scheduled: jobs in the same lanes that are due tomorrow.

    Raises:
        MutiraoError: the database is not ours to use, or some jobs were done twice.
    """
    load = Load(url)
    async with ground(url) as place:
        await place.fill(load.spread(scheduled, queues, priorities, LATER))
        points, waiting, done = [], 0, 0
        for size in sorted(sizes):
            await place.fill(load.spread(size + jobs - waiting, queues, priorities))
            rate, cost = await _drain(url, jobs)
            waiting = size + jobs - cost.jobs
            more = claims * BATCH
            await place.fill(load.spread(size + more - waiting, queues, priorities))
            heads, claim = await _claim(place.store, claims)
            waiting, done = size, done + cost.jobs + more
            points.append(Waiting(waiting=size, rate=rate, heads=heads, claim=claim, cost=cost))
        await place.expect(done)
    return Backlog(queues=queues, priorities=priorities, scheduled=scheduled, points=tuple(points))


async def _drain(url: str, jobs: int) -> tuple[float, Cost]:
    """Run a worker until it has done some jobs, and a few more while it is told to stop."""
    async with Crew(url) as crew:
        with measured(url) as spent:
            started = perf_counter()
            await crew.start()
            await crew.until(jobs)
            done, last = crew.board.done, crew.board.last
            share = await crew.stop()
        return done / (last - started), Cost.of(crew.board.done, spent, share)


async def _claim(store: Store, times: int) -> tuple[float, Quantiles]:
    """Claim as a worker does, lanes by their lower bounds; time the claims and nothing else."""
    worker, book = await store.register(IDENTITY, expiry=3_600), LaneBook(None)
    started = perf_counter()
    heads = await store.lanes(None)
    took, found = perf_counter() - started, []
    book.refresh(heads, monotonic())
    for _ in range(times):
        lanes = book.due(monotonic())
        started = perf_counter()
        claims = await store.claim(worker, lanes, BATCH)
        found.append(perf_counter() - started)
        book.claimed(claims, monotonic())
        await store.settle(worker, [Settlement(claim.id, claim.run, SUCCEEDED) for claim in claims])
    await store.retire(worker)
    return took * 1e3, Quantiles.of(found)
