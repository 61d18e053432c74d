"""`fanout`: jobs that enqueue jobs, in the commit that completes them."""

from dataclasses import dataclass

from benchmarks.crew import Crew
from benchmarks.figures import Cost, Figures
from benchmarks.ground import ground
from benchmarks.load import Load
from benchmarks.spent import measured


@dataclass(frozen=True, slots=True, kw_only=True)
class FannedOut:
    """What it took until all were done, from the workers' start; parents and children count."""

    parents: int
    children: int
    processes: int
    cost: Cost

    def figures(self) -> Figures:
        """Return the cost."""
        return self.cost.figures()


async def fanout(
    url: str, *, parents: int = 10, children: int = 1_000, processes: int = 1
) -> FannedOut:
    """Drain jobs that each enqueue children in their own `job.transaction()`, and those, too.

    Parameters:
        url: a database that a benchmark may use, see `Ground.prepare`.
        parents: how many jobs there are in the beginning.
        children: how many each of them enqueues; these do nothing.
        processes: workers, each a process.

    Raises:
        ConfigurationError: the driver has no asynchronous form.
        MutiraoError: the database is not ours to use, or some jobs were not done once.
    """
    load, jobs = Load(url), parents * (1 + children)
    async with ground(url) as place:
        place.store.engines.asynchronous()  # the handlers are coroutines, with transactions
        await place.fill(load.branch.job(children=children) for _ in range(parents))
        async with Crew(url, processes) as crew:
            with measured(url) as spent:
                await crew.start()
                await crew.until(jobs)
                share = await crew.stop()
        await place.expect(jobs)
    return FannedOut(
        parents=parents, children=children, processes=processes, cost=Cost.of(jobs, spent, share)
    )
