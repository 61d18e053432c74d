"""`fleet`: what a job costs that comes while many workers are idle."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter

from benchmarks.crew import Crew
from benchmarks.figures import Figures, Quantiles
from benchmarks.ground import Ground, ground
from benchmarks.latency import UNCOUNTED, called, one_by_one
from benchmarks.load import Load
from benchmarks.member import Share

WORKERS = (1, 8, 100)
PROCESSES = 4  # at the most: workers share them, so that a hundred fit on a machine


@dataclass(frozen=True, slots=True, kw_only=True)
class Crowd:
    """What one job took of some idle workers.

    Parameters:
        workers: how many.
        claims: of all workers, for a job.
        statements: likewise, each a transaction of its own where the database has functions; less
            what the same workers send in as much time without jobs.
        waited: from the return of `enqueue`, when the job has committed, to the handler's start.
    """

    workers: int
    claims: float
    statements: float
    waited: Quantiles


@dataclass(frozen=True, slots=True)
class Fleet:
    """Fleets of several sizes."""

    crowds: tuple[Crowd, ...]

    def figures(self) -> Figures:
        """Return what a job cost each of them."""
        found: Figures = {}
        for crowd in self.crowds:
            of = f"{crowd.workers} idle workers"
            found |= {
                f"{of}, claims/job": crowd.claims,
                f"{of}, transactions/job": crowd.statements,
                f"{of}, commit to handler, p50, ms": crowd.waited.p50,
                f"{of}, commit to handler, p99, ms": crowd.waited.p99,
            }
        return found


async def fleet(
    url: str,
    *,
    workers: Sequence[int] = WORKERS,
    jobs: int = 200,
    pause: float = 0.05,
    seconds: float = 10.0,
    settling: float = 5.0,
) -> Fleet:
    """Enqueue jobs one at a time for workers that are idle; count what these do about each.

    Parameters:
        url: a database that a benchmark may use, see `Ground.prepare`.
        workers: how many; each number is measured. On PostgreSQL each needs about four connections.
        jobs: how many, each when the one before has run.
        pause: seconds between two jobs, on average.
        seconds: for how long the workers are watched without jobs.
        settling: seconds before that, not counted.

    Raises:
        MutiraoError: the database is not ours to use, or some jobs were not done once.
    """
    async with ground(url) as place:
        crowds = [await _crowd(place, n, jobs, pause, seconds, settling) for n in workers]
    return Fleet(tuple(crowds))


async def _crowd(
    place: Ground, workers: int, jobs: int, pause: float, seconds: float, settling: float
) -> Crowd:
    await place.prepare()
    load, total = Load(place.url), jobs + UNCOUNTED
    processes = next(n for n in range(PROCESSES, 0, -1) if workers % n == 0)
    each = workers // processes
    async with Crew(place.url, processes, numbers=total, each=each) as crew:
        await place.fill(())
        await crew.start()
        submit = partial(called, load)
        await one_by_one(crew, submit, range(UNCOUNTED), pause)
        await asyncio.sleep(settling)
        rest = await _rest(crew, seconds)
        before, since = await crew.so_far(), perf_counter()
        moments = await one_by_one(crew, submit, range(UNCOUNTED, total), pause)
        passed, after = perf_counter() - since, await crew.so_far()
        await crew.stop()
        await load.app.aclose()
    await place.expect(total)
    begun = list(crew.board.started)[UNCOUNTED:]
    sent = after.statements - before.statements - rest * passed
    return Crowd(
        workers=workers,
        claims=(after.claims - before.claims) / jobs,
        statements=sent / jobs,
        waited=Quantiles.of([at - back for at, (_, back) in zip(begun, moments, strict=True)]),
    )


async def _rest(crew: Crew, seconds: float) -> float:
    """Return the statements a second of workers that have nothing to do."""
    before, since = await crew.so_far(), perf_counter()
    await asyncio.sleep(seconds)
    after: Share = await crew.so_far()
    return (after.statements - before.statements) / (perf_counter() - since)
