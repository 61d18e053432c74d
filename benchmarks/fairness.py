"""`fairness`: how long a tenant's job waits while another's very many are done; what turns cost."""

import asyncio
from dataclasses import dataclass
from time import perf_counter

from benchmarks.crew import Crew
from benchmarks.drain import drained
from benchmarks.figures import Cost, Figures, Quantiles, prefixed, quantile
from benchmarks.ground import ground
from benchmarks.load import Load
from benchmarks.spent import measured

PAUSE = 0.05  # seconds between two single jobs


@dataclass(frozen=True, slots=True, kw_only=True)
class Fair:
    """The same jobs drained without turns, with many tenants, and with a single one.

    `waited` is how long single jobs of other tenants took to begin, while the last of these three
    was done, from the call of `enqueue`; `before` how many jobs were done meanwhile.
    """

    keys: int
    unfair: Cost
    fair: Cost
    single: Cost
    waited: Quantiles
    before: tuple[int, ...]

    def figures(self) -> Figures:
        """Return the rates, what they are of the first, and what the single jobs waited for."""
        return {
            "without turns, jobs/s": self.unfair.rate,
            "tenants in turn, jobs/s": self.fair.rate,
            "tenants in turn, of that without": self.fair.rate / self.unfair.rate,
            "one tenant, jobs/s": self.single.rate,
            "one tenant, of that without": self.single.rate / self.unfair.rate,
            "jobs done before another's single one, median": quantile([*self.before], 0.5),
            "jobs done before another's single one, most": max(self.before),
        } | prefixed("another's single job", self.waited.figures())


async def fairness(
    url: str, *, jobs: int = 200_000, keys: int = 1_000, singles: int = 20, processes: int = 1
) -> Fair:
    """Drain jobs that do nothing: without turns, of many tenants in turn, and of a single tenant.

    Parameters:
        url: a database that a benchmark may use, see `Ground.prepare`.
        jobs: how many are drained, each time.
        keys: tenants, where there are many.
        singles: how many others come with one job each, while the single tenant's are done.
        processes: workers, each a process.

    Raises:
        MutiraoError: the database is not ours to use, or some jobs were not done once.
    """
    load = Load(url)
    async with ground(url) as place:
        others = (load.keyed.job(key=n % keys) for n in range(jobs))
        unfair = await drained(place, others, jobs, processes)
        await place.prepare()
        many = (load.fair.job(tenant=n % keys) for n in range(jobs))
        in_turn = await drained(place, many, jobs, processes)
        await place.prepare()
        await place.fill(load.fair.job(tenant=-1) for _ in range(jobs))
        async with Crew(url, processes, numbers=singles) as crew:
            with measured(url) as spent:
                await crew.start()
                found = [await _single(crew, load, number) for number in range(singles)]
                await crew.until(jobs + singles)
                share = await crew.stop()
                await load.app.aclose()
        await place.expect(jobs + singles)
        await place.prepare()
    return Fair(
        keys=keys,
        unfair=unfair,
        fair=in_turn,
        single=Cost.of(jobs + singles, spent, share),
        waited=Quantiles.of([waited for waited, _ in found]),
        before=tuple(before for _, before in found),
    )


async def _single(crew: Crew, load: Load, number: int) -> tuple[float, int]:
    """Enqueue a job of a tenant who has no others; return what it waited, in seconds and jobs."""
    await asyncio.sleep(PAUSE)
    done, called = crew.board.done, perf_counter()
    await load.fair.aenqueue(tenant=number, number=number)
    await crew.until_begun(number)
    return crew.board.started[number] - called, crew.board.before[number] - done
