"""`telemetry`: what a drain loses where it is watched, in turns with one where it is not."""

import asyncio
import logging
import os
import urllib.request
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from types import MappingProxyType
from typing import Any, NamedTuple

from benchmarks.drain import drained
from benchmarks.figures import Figures
from benchmarks.ground import ground
from benchmarks.load import PAYLOAD, Load
from mutirao.app import Mutirao
from mutirao.cli.logs import configure

PORT = 29_464
SCRAPE_EVERY = 1.0  # seconds, which is often: 15 to 60 are usual
WITHOUT = "nothing"


class Way(NamedTuple):
    """How a worker is watched: its settings, and what is done to its application before."""

    settings: Mapping[str, Any] = MappingProxyType({})
    prepare: Callable[[Mutirao], None] | None = None


def _trace(app: Mutirao, share: float = 1.0, measure: bool = False) -> None:
    """Make spans by the SDK of this share of attempts; no exporter takes them."""
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased

    from mutirao.telemetry.opentelemetry import OpenTelemetry

    spans = TracerProvider(sampler=ParentBased(TraceIdRatioBased(share)))
    OpenTelemetry(tracer_provider=spans, meter_provider=MeterProvider(), measure=measure).install(
        app
    )


def _trace_without_sdk(app: Mutirao) -> None:
    """Have the API only, which is what a program has that sets up nothing."""
    from mutirao.telemetry.opentelemetry import OpenTelemetry

    OpenTelemetry(measure=False).install(app)


def _log(app: Mutirao) -> None:
    """Write lines as `mutirao worker --log-format json` does, to nowhere."""
    configure("json", "info")
    for handler in logging.getLogger().handlers:
        if isinstance(handler, logging.StreamHandler):
            handler.setStream(Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115


def _log_and_trace(app: Mutirao, trace: Callable[[Mutirao], None]) -> None:
    _log(app)
    trace(app)


_METRICS = {"metrics_port": PORT}
_trace_some = partial(_trace, share=0.01)
WAYS: Mapping[str, Way] = {
    WITHOUT: Way(),
    "metrics": Way(_METRICS),
    "logs": Way({}, _log),
    "logs-of-each-job": Way({"log_jobs": "all"}, _log),
    "traces-by-api-alone": Way({}, _trace_without_sdk),
    "traces-sampled": Way({}, _trace_some),
    "traces": Way({}, _trace),
    "traces-and-measurements": Way({}, partial(_trace, measure=True)),
    "all-by-api-alone": Way(_METRICS, partial(_log_and_trace, trace=_trace_without_sdk)),
    "all-sampled": Way(_METRICS, partial(_log_and_trace, trace=_trace_some)),
    "all": Way(_METRICS, partial(_log_and_trace, trace=_trace)),
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
    url: str,
    *,
    jobs: int = 100_000,
    rounds: int = 5,
    payload: int = PAYLOAD,
    ways: Sequence[str] = tuple(WAYS),
) -> Watched:
    """Drain jobs that do nothing by a worker that is not watched and by one that is, in turns.

    The metrics are scraped each second meanwhile. Traces need OpenTelemetry's SDK.

    Parameters:
        url: a database that a benchmark may use, see `Ground.prepare`.
        jobs: how many, each time.
        rounds: of all ways; each is compared with the one beside it.
        payload: bytes of each job's arguments.
        ways: which of `WAYS`; the first, which is not watched, is always among them.

    Raises:
        MutiraoError: the database is not ours to use, or some jobs were not done once.
    """
    chosen = {name: way for name, way in WAYS.items() if name in (WITHOUT, *ways)}
    rates, cpu = ({name: list[float]() for name in chosen} for _ in range(2))
    async with ground(url) as place:
        for _ in range(rounds):
            for name, (settings, prepare) in chosen.items():
                await place.prepare()
                waiting = Load(url).jobs(jobs, payload)
                async with _scraped(settings):
                    cost = await drained(place, waiting, jobs, 1, settings, prepare)
                rates[name].append(cost.rate)
                cpu[name].append(cost.client_cpu)
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
