"""`pinned`: whether draining keeps its pace while somebody holds a snapshot open."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from statistics import median
from time import perf_counter

from benchmarks.crew import Crew
from benchmarks.figures import Cost, Figures
from benchmarks.ground import Ground, ground
from benchmarks.load import Load
from benchmarks.spent import measured
from mutirao.sql.connections.engines import Engines
from mutirao.sql.dialects.connecting import SINGLE_STATEMENT

FEW = 5  # rounds at either end that are compared


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One round: jobs a second while they were enqueued, and from their commit to the last run."""

    enqueued: float
    drained: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Pinned:
    """The rounds in order, and what enqueueing and draining took, the uncounted round included.

    `first` and `last` are the median rates of draining of five rounds at either end (of half of
    them where there are fewer than ten).
    """

    held: bool
    jobs: int
    rounds: tuple[Round, ...]
    first: float
    last: float
    ratio: float
    cost: Cost

    def figures(self) -> Figures:
        """Return every round's rate, then what became of it."""
        rates: Figures = {
            f"round {n}: jobs/s": each.drained for n, each in enumerate(self.rounds, start=1)
        }
        return (
            rates
            | {
                "first rounds: jobs/s": self.first,
                "last rounds: jobs/s": self.last,
                "last of first": self.ratio,
            }
            | self.cost.each()
        )


async def pinned(
    url: str, *, rounds: int = 30, jobs: int = 20_000, snapshot: bool = True
) -> Pinned:
    """Enqueue and drain, over and over, with one worker, while another session sits there.

    Parameters:
        url: a database that a benchmark may use, see `Ground.prepare`.
        rounds: how many; one before them is not counted.
        jobs: in each round.
        snapshot: whether that session holds a snapshot and a transaction id; without it the
            rounds show how even the machine is.

    Raises:
        MutiraoError: the database is not ours to use, or some jobs were not done once.
    """
    load = Load(url)
    async with ground(url) as place, Crew(url) as crew:
        with measured(url) as spent:
            await place.fill(load.jobs(jobs))
            await crew.start()
            await crew.until(jobs)
            async with held(place) if snapshot else nullcontext():
                found = [await _round(load, crew, jobs) for _ in range(rounds)]
                share = await crew.stop()
            await load.app.aclose()
        await place.expect(jobs * (rounds + 1))
    few = max(1, min(FEW, rounds // 2))
    first, last = (median(each.drained for each in some) for some in (found[:few], found[-few:]))
    return Pinned(
        held=snapshot,
        jobs=jobs,
        rounds=tuple(found),
        first=first,
        last=last,
        ratio=last / first,
        cost=Cost.of(jobs * (rounds + 1), spent, share),
    )


async def _round(load: Load, crew: Crew, jobs: int) -> Round:
    done, started = crew.board.done, perf_counter()
    await load.app.aenqueue_many(load.jobs(jobs))
    committed = perf_counter()
    await crew.until(done + jobs)
    last = crew.board.last
    # A handful of jobs may all have run before we hear of our own commit.
    since = committed if last > committed else started
    return Round(enqueued=jobs / (committed - started), drained=jobs / (last - since))


@asynccontextmanager
async def held(place: Ground) -> AsyncIterator[None]:
    """Hold a snapshot in a session of its own."""
    engines = Engines(place.url, pool_size=1)
    try:
        if engines.has_sync:
            with engines.sync().connect() as conn:
                place.instruments.hold_snapshot(conn.execution_options(**{SINGLE_STATEMENT: True}))
                yield
        else:
            async with engines.asynchronous().connect() as aconn:
                await aconn.execution_options(**{SINGLE_STATEMENT: True})
                await aconn.run_sync(place.instruments.hold_snapshot)
                yield
    finally:
        await engines.close()
