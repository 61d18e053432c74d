"""`telemetry`: what a drain loses where it is watched, in turns with one where it is not."""

import asyncio
import urllib.request
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from statistics import median
from typing import Any

from benchmarks.drain import drained
from benchmarks.figures import Figures
from benchmarks.ground import ground
from benchmarks.load import PAYLOAD, Load

PORT = 29_464
SCRAPE_EVERY = 1.0  # seconds, which is often: 15 to 60 are usual
WITHOUT = "nothing"
# The settings of a worker that is watched, by what watches it.
WAYS: Mapping[str, Mapping[str, Any]] = {
    WITHOUT: {},
    "metrics": {"metrics_port": PORT},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """What each round found, by what watches the worker: jobs a second, and microseconds a job.

    `cpu`: processor time of the worker.
    """

    rates: Mapping[str, Sequence[float]]
    cpu: Mapping[str, Sequence[float]]

    def figures(self) -> Figures:
        """Return the medians, and what they are of those without."""
        found: Figures = {f"{way}, jobs/s": median(rates) for way, rates in self.rates.items()}
        for way, rates in self.rates.items():
            if way != WITHOUT:
                found[f"{way}, of without"] = _share(rates, self.rates[WITHOUT])
        for way, spent in self.cpu.items():
            found[f"{way}, CPU of a job, µs"] = median(spent)
        return found


def _share(some: Sequence[float], of: Sequence[float]) -> float:
    """Return the median of what the rounds found in comparison with those beside them."""
    return median(one / other for one, other in zip(some, of, strict=True))


async def telemetry(
    url: str, *, jobs: int = 100_000, rounds: int = 5, payload: int = PAYLOAD
) -> Watched:
    """Drain jobs that do nothing by a worker that is not watched and by one that is, in turns.

    The metrics are scraped each second meanwhile.

    Parameters:
        url: a database that a benchmark may use, see `Ground.prepare`.
        jobs: how many, each time.
        rounds: of all ways; each is compared with the one beside it.
        payload: bytes of each job's arguments.

    Raises:
        MutiraoError: the database is not ours to use, or some jobs were not done once.
    """
    rates, cpu = {way: list[float]() for way in WAYS}, {way: list[float]() for way in WAYS}
    async with ground(url) as place:
        for _ in range(rounds):
            for way, settings in WAYS.items():
                await place.prepare()
                waiting = Load(url).jobs(jobs, payload)
                async with _scraped(settings):
                    cost = await drained(place, waiting, jobs, 1, settings)
                rates[way].append(cost.rate)
                cpu[way].append(cost.client_cpu)
    return Watched(rates=rates, cpu=cpu)


@asynccontextmanager
async def _scraped(settings: Mapping[str, Any]) -> AsyncIterator[None]:
    """Scrape a worker with such settings during the block, if it has metrics."""
    if "metrics_port" not in settings:
        yield
        return
    scraping = asyncio.create_task(_scrape(settings["metrics_port"]))
    try:
        yield
    finally:
        scraping.cancel()


async def _scrape(port: int) -> None:
    while True:
        with suppress(OSError):  # the worker has not begun, or has ended
            await asyncio.to_thread(_ask, f"http://127.0.0.1:{port}/metrics")
        await asyncio.sleep(SCRAPE_EVERY)


def _ask(url: str) -> None:
    with urllib.request.urlopen(url, timeout=SCRAPE_EVERY) as reply:  # noqa: S310 (our own)
        reply.read()
