"""`enqueue`: how fast jobs get in, one by one and many at once."""

from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass

from benchmarks.crew import Crew
from benchmarks.figures import Cost, Figures, prefixed
from benchmarks.ground import Ground, ground
from benchmarks.load import PAYLOAD, Load, filling
from benchmarks.producing import Producer, one_by_one
from benchmarks.spent import measured

PRODUCERS = (1, 16)


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One way of enqueueing, and what it took.

    `many` means all jobs in one call and one transaction; otherwise each has its own commit.
    While a worker is `busy` with what is enqueued, the server's figures are of both; the client's
    are the producers' alone.
    """

    many: bool
    producers: int
    busy: bool
    cost: Cost

    def __str__(self) -> str:
        if self.many:
            return "many at once"
        beside = ", busy worker" if self.busy else ""
        return f"one by one, {self.producers} at a time{beside}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Enqueued:
    """Every way that was measured."""

    producer: Producer
    payload: int
    ways: tuple[Way, ...]

    def figures(self) -> Figures:
        """Return the cost of each way."""
        found: Figures = {}
        for way in self.ways:
            found |= prefixed(str(way), way.cost.figures())
        return found


async def enqueue(
    url: str,
    *,
    jobs: int = 2_000,
    many: int = 100_000,
    producers: Sequence[int] = PRODUCERS,
    producer: Producer = "asyncio",
    payload: int = PAYLOAD,
) -> Enqueued:
    """Enqueue one by one, with and without a busy worker beside, and many at once.

    Parameters:
        url: a database that a benchmark may use, see `Ground.prepare`.
        jobs: how many one by one, each time.
        many: how many at once.
        producers: how many enqueue one by one at the same time; each number is measured.
        producer: "asyncio" for coroutines of one event loop, "plain" for threads.
        payload: bytes of each job's arguments.

    Raises:
        MutiraoError: the database is not ours to use, or some jobs were not written.
    """
    async with ground(url) as place:
        ways = [
            await _one_by_one(place, jobs, count, producer, payload, busy=busy)
            for busy in (False, True)
            for count in producers
        ]
        ways.append(await _many(place, many, payload))
    return Enqueued(producer=producer, payload=payload, ways=tuple(ways))


async def _one_by_one(
    place: Ground, jobs: int, producers: int, producer: Producer, payload: int, *, busy: bool
) -> Way:
    load, text = Load(place.url), filling(payload)
    await place.prepare()
    await place.fill(())
    async with AsyncExitStack() as stack:
        crew = await stack.enter_async_context(Crew(place.url)) if busy else None
        if crew is not None:
            await crew.start()
        # Opens the connections, too.
        await one_by_one(load, producers, producer=producer, producers=producers)
        with measured(place.url) as spent:
            await one_by_one(load, jobs, producer=producer, producers=producers, payload=text)
        if crew is not None:
            await crew.until(jobs + producers)
            await crew.stop()
    await load.app.aclose()
    await place.expect_enqueued(jobs + producers)
    return Way(many=False, producers=producers, busy=busy, cost=Cost.of(jobs, spent))


async def _many(place: Ground, jobs: int, payload: int) -> Way:
    load = Load(place.url)
    await place.prepare()
    await one_by_one(load, 1, producer="asyncio", producers=1)
    with measured(place.url) as spent:
        await load.app.aenqueue_many(load.jobs(jobs, payload))
    await load.app.aclose()
    await place.expect_enqueued(jobs + 1)
    return Way(many=True, producers=1, busy=False, cost=Cost.of(jobs, spent))
