"""`limits`: what limits cost those who use them, and whether blocked jobs are in the way."""

from dataclasses import dataclass
from time import perf_counter

from benchmarks.drain import drained
from benchmarks.figures import Cost, Figures
from benchmarks.ground import Ground, ground
from benchmarks.load import Load
from mutirao.model.jobs.job import NewWorker
from mutirao.model.limits.limits import Limit, Rule, pause_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Limited:
    """The same jobs drained without a limit, with one for each key, and behind blocked ones.

    `parking` is how many jobs a second left their lane because they were blocked, when they were
    met first.
    """

    keys: int
    most: int
    blocked: int
    unlimited: Cost
    limited: Cost
    behind: Cost
    parking: float

    def figures(self) -> Figures:
        """Return the rates, and what they are of the first."""
        plain = self.unlimited.rate
        return {
            "without limits, jobs/s": plain,
            "limited by key, jobs/s": self.limited.rate,
            "limited, of that without": self.limited.rate / plain,
            "with others blocked, jobs/s": self.behind.rate,
            "with others blocked, of that without": self.behind.rate / plain,
            "parked, jobs/s": self.parking,
        }


async def limits(
    url: str,
    *,
    jobs: int = 100_000,
    keys: int = 1_000,
    most: int = 20,
    blocked: int = 100_000,
    processes: int = 1,
) -> Limited:
    """Drain jobs that do nothing, without limits, with them, and with others blocked before them.

    Parameters:
        url: a database that a benchmark may use, see `Ground.prepare`.
        jobs: how many are drained, each time.
        keys: the values that are counted apart.
        most: how many of one value may run at once.
        blocked: how many jobs of another value wait, whose turn never comes.
        processes: workers, each a process.

    Raises:
        MutiraoError: the database is not ours to use, or some jobs were not done once.
    """
    load = Load(url)
    rule = Limit(most, by="key").on(task=load.keyed.name)
    pause = pause_of(None, load.keyed.name, "key", "-1")
    others = [load.keyed.job(key=n % keys) for n in range(jobs)]
    async with ground(url) as place:
        unlimited = await drained(place, others, jobs, processes)
        await place.prepare()
        await _limit(place, rule)
        limited = await drained(place, others, jobs, processes)
        await place.prepare()
        await _limit(place, rule, pause)
        await place.fill(load.keyed.job(key=-1) for _ in range(blocked))
        parking = await _park(place, blocked)
        behind = await drained(place, others, jobs, processes)
        await place.prepare()
    return Limited(
        keys=keys,
        most=most,
        blocked=blocked,
        unlimited=unlimited,
        limited=limited,
        behind=behind,
        parking=parking,
    )


async def _limit(place: Ground, *rules: Rule) -> None:
    for rule in rules:
        await place.store.limits.put(rule)


async def _park(place: Ground, jobs: int) -> float:
    """Have a claim meet the blocked jobs; return how many it parked a second."""
    identity = NewWorker(name="park", host="", pid=0, queues=None, concurrency=1, version="")
    worker = await place.store.register(identity, expiry=600)
    lanes, started = [head.lane for head in await place.store.lanes(None)], perf_counter()
    while sum(each.parked for each in await place.store.limits.listed()) < jobs:
        await place.store.claim(worker, lanes, 500)
    took = perf_counter() - started
    await place.store.retire(worker)
    return jobs / took
