"""`latency`: how soon an idle worker begins a job that somebody enqueues."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from time import perf_counter

from benchmarks.crew import Crew
from benchmarks.figures import Cost, Figures, Quantiles, prefixed
from benchmarks.ground import ground
from benchmarks.load import Load
from benchmarks.producing import Producer
from benchmarks.spent import measured

Moments = tuple[float, float]

UNCOUNTED = 20  # jobs in the beginning, while connections are opened and statements prepared


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """How long jobs waited until their handlers began.

    `from_call` counts from the call of `enqueue`, so writing and committing the job is part of it;
    `from_commit` from that call's return, when the producer knows of the commit. A handler may
    begin sooner: such a figure is below zero.
    """

    producer: Producer
    from_call: Quantiles
    from_commit: Quantiles
    cost: Cost

    def figures(self) -> Figures:
        """Return both, and what a job took that came alone."""
        return (
            prefixed("enqueue called to handler start", self.from_call.figures())
            | prefixed("enqueue returned to handler start", self.from_commit.figures())
            | self.cost.each()
        )


async def latency(
    url: str, *, jobs: int = 500, producer: Producer = "asyncio", pause: float = 0.02
) -> Latency:
    """Enqueue jobs one at a time, each when the one before has run and the worker is idle again.

    Parameters:
        url: a database that a benchmark may use, see `Ground.prepare`.
        jobs: how many.
        producer: "asyncio" enqueues in an event loop, "plain" in a thread without one.
        pause: seconds between two jobs, on average.

    Raises:
        MutiraoError: the database is not ours to use, or some jobs were not done once.
    """
    load, total = Load(url), jobs + UNCOUNTED
    submit = partial(called if producer == "asyncio" else _in_thread, load)
    async with ground(url) as place, Crew(url, numbers=total) as crew:
        await place.fill(())
        with measured(url) as spent:
            await crew.start()
            moments = await one_by_one(crew, submit, range(total), pause)
            share = await crew.stop()
            await load.app.aclose()
        await place.expect(total)
    begun = list(crew.board.started)[UNCOUNTED:]
    return Latency(
        producer=producer,
        from_call=Quantiles.of(
            [at - called for at, (called, _) in zip(begun, moments[UNCOUNTED:], strict=True)]
        ),
        from_commit=Quantiles.of(
            [at - returned for at, (_, returned) in zip(begun, moments[UNCOUNTED:], strict=True)]
        ),
        cost=Cost.of(total, spent, share),
    )


async def one_by_one(
    crew: Crew, submit: Callable[[int], Awaitable[Moments]], numbers: range, pause: float
) -> list[Moments]:
    """Submit numbered jobs, each when the one before has run; return each call's two moments."""
    return [await _one(crew, submit, number, pause) for number in numbers]


async def _one(
    crew: Crew, submit: Callable[[int], Awaitable[Moments]], number: int, pause: float
) -> Moments:
    # Not always alike: the worker's own rhythm must not decide which jobs it is awake for.
    await asyncio.sleep(pause * (0.5 + random.random()))
    moments = await submit(number)
    await crew.until(number + 1)
    return moments


async def called(load: Load, number: int) -> Moments:
    """Enqueue a numbered job; return when the call began and when it returned."""
    began = perf_counter()
    await load.numbered.aenqueue(number=number)
    return began, perf_counter()


async def _in_thread(load: Load, number: int) -> Moments:
    return await asyncio.to_thread(_called, load, number)


def _called(load: Load, number: int) -> Moments:
    began = perf_counter()
    load.numbered.enqueue(number=number)
    return began, perf_counter()
