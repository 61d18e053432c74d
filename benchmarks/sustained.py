"""`sustained`: a producer and workers at full speed together, and what piles up between them."""

from dataclasses import dataclass
from time import perf_counter

from benchmarks.crew import Crew
from benchmarks.figures import Cost, Figures
from benchmarks.ground import ground
from benchmarks.load import PAYLOAD, Load
from benchmarks.spent import measured


@dataclass(frozen=True, slots=True, kw_only=True)
class Sustained:
    """What went through while the producer was at work, and how many jobs waited.

    `rate` is of jobs done in that time, `enqueued` of those written. `largest` and `last` are
    the backlog at its worst and when the producer stopped. The cost is that of all jobs, also of
    those done afterwards.
    """

    seconds: float
    batch: int
    processes: int
    rate: float
    enqueued: float
    largest: int
    last: int
    cost: Cost

    def figures(self) -> Figures:
        """Return them by name."""
        shown: Figures = {
            "jobs/s": self.rate,
            "enqueued, jobs/s": self.enqueued,
            "largest backlog, jobs": self.largest,
            "last backlog, jobs": self.last,
        }
        return shown | self.cost.each()


async def sustained(
    url: str,
    *,
    seconds: float = 60.0,
    batch: int = 100,
    processes: int = 1,
    payload: int = PAYLOAD,
) -> Sustained:
    """Enqueue as fast as possible while workers drain as fast as possible.

    Parameters:
        url: a database that a benchmark may use, see `Ground.prepare`.
        seconds: for how long.
        batch: jobs in each of the producer's transactions.
        processes: workers, each a process.
        payload: bytes of each job's arguments.

    Raises:
        MutiraoError: the database is not ours to use, or some jobs were not done once.
    """
    load, enqueued, largest = Load(url), 0, 0
    some = list(load.jobs(batch, payload))
    async with ground(url) as place, Crew(url, processes) as crew:
        await place.fill(())
        with measured(url) as spent:
            await crew.start()
            until = (started := perf_counter()) + seconds
            while (now := perf_counter()) < until:
                await load.app.aenqueue_many(some)
                enqueued += batch
                largest = max(largest, enqueued - crew.board.done)
            took, done = now - started, crew.board.done
            await crew.until(enqueued)
            share = await crew.stop()
            await load.app.aclose()
        await place.expect(enqueued)
    return Sustained(
        seconds=took,
        batch=batch,
        processes=processes,
        rate=done / took,
        enqueued=enqueued / took,
        largest=largest,
        last=enqueued - done,
        cost=Cost.of(enqueued, spent, share),
    )
