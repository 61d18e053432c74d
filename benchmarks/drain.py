"""`drain`: how fast workers do jobs that are there already, history kept."""

import asyncio
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from benchmarks.by_hand import can_by_hand, drained_by_hand
from benchmarks.crew import Crew
from benchmarks.figures import Cost, Figures
from benchmarks.ground import Ground, ground
from benchmarks.load import PAYLOAD, Load
from benchmarks.member import Prepare
from benchmarks.spent import measured
from mutirao.model.jobs.job import NewJob, NewWorker
from mutirao.model.jobs.outcome import SUCCEEDED, Settlement

BATCH = 500  # jobs in a claim of the store alone, as a worker's largest


@dataclass(frozen=True, slots=True, kw_only=True)
class Drained:
    """What draining took, from the workers' start until every outcome was written.

    `alone` is how many jobs a second the store does in claims and settlements of 500, one after
    another, with no worker around them, and `by_hand` how many the driver does in the same way;
    None unless it was asked for, or on another database.
    """

    processes: int
    plain: bool
    payload: int
    cost: Cost
    alone: float | None
    by_hand: float | None

    def figures(self) -> Figures:
        """Return the cost, and the store's own rate beside it."""
        if self.alone is None:
            return self.cost.figures()
        found = self.cost.figures() | {
            "the store alone, jobs/s": self.alone,
            "drain, of the store alone": self.cost.rate / self.alone,
        }
        if self.by_hand is not None:
            found["by hand, jobs/s"] = self.by_hand
            found["drain, of that by hand"] = self.cost.rate / self.by_hand
        return found


async def drain(
    url: str,
    *,
    jobs: int = 100_000,
    processes: int = 1,
    threads: bool = False,
    payload: int = PAYLOAD,
    concurrency: int = 20,
    alone: bool = False,
) -> Drained:
    """Enqueue jobs that do nothing, then measure how workers drain them.

    Parameters:
        url: a database that a benchmark may use, see `Ground.prepare`.
        jobs: how many.
        processes: workers, each a process.
        threads: whether the handler is a plain function, which runs in threads.
        payload: bytes of each job's arguments.
        concurrency: handlers at once in each worker.
        alone: whether to measure the store alone, too.

    Raises:
        MutiraoError: the database is not ours to use, or some jobs were not done once.
    """
    async with ground(url) as place:
        waiting = Load(url).jobs(jobs, payload, plain=threads)
        cost = await drained(place, waiting, jobs, processes, {"concurrency": concurrency})
        rate = await _alone(place, jobs, payload) if alone else None
        return Drained(
            processes=processes,
            plain=threads,
            payload=payload,
            cost=cost,
            alone=rate,
            by_hand=await _by_hand(place, jobs, payload) if alone and can_by_hand(url) else None,
        )


async def drained(
    place: Ground,
    jobs: Iterable[NewJob],
    number: int,
    processes: int,
    settings: Mapping[str, Any] | None = None,
    prepare: Prepare | None = None,
) -> Cost:
    """Write so many jobs, let workers do them, and return what these took."""
    await place.fill(jobs)
    async with Crew(place.url, processes, settings, prepare=prepare) as crew:
        with measured(place.url) as spent:
            await crew.start()
            await crew.until(number)
            # Stopping writes the last settlements: the time covers them.
            share = await crew.stop()
    await place.expect(number)
    return Cost.of(number, spent, share)


async def _by_hand(place: Ground, jobs: int, payload: int) -> float:
    await place.prepare()
    await place.fill(Load(place.url).jobs(jobs, payload))
    rate = await asyncio.to_thread(drained_by_hand, place.url, jobs)
    await place.expect(jobs)
    return rate


async def _alone(place: Ground, jobs: int, payload: int) -> float:
    """Do the same claims and settlements without a worker around them; return jobs a second."""
    await place.prepare()
    await place.fill(Load(place.url).jobs(jobs, payload))
    store = place.store
    identity = NewWorker(
        name="alone", host="", pid=os.getpid(), queues=None, concurrency=1, version=""
    )
    worker = await store.register(identity, expiry=600)
    (head,) = await store.lanes(None)
    lane, left, started = head.lane, jobs, perf_counter()
    while left:
        claims = await store.claim(worker, [lane], BATCH)
        lane = lane._replace(run_at=claims[-1].run_at, id=claims[-1].id)
        await store.settle(worker, [Settlement(claim.id, claim.run, SUCCEEDED) for claim in claims])
        left -= len(claims)
    took = perf_counter() - started
    await store.retire(worker)
    await place.expect(jobs)
    return jobs / took
