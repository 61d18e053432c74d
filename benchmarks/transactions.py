"""`transactions`: jobs that commit a row of their own with their completion, and raw commits."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from sqlalchemy import make_url

from benchmarks import bare_sessions, effects
from benchmarks.drain import BATCH, drained
from benchmarks.figures import Cost, Figures
from benchmarks.ground import Ground, ground
from benchmarks.load import Load
from benchmarks.spent import measured
from mutirao.errors import MutiraoError
from mutirao.model.jobs.job import NewJob, NewWorker


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """What jobs took that ended in `job.transaction()` with one INSERT, by the kind of handler.

    `raw` is what the same commits took in a driver's own loop, by the kind of its connections, with
    one of them and with as many as there are handlers at once; `sessions` what they took in bare
    SQLAlchemy sessions, as many at once.
    """

    concurrency: int
    handlers: dict[str, Cost]
    raw: dict[str, Cost]
    sessions: dict[str, Cost]

    @property
    def limits(self) -> tuple[float, float]:
        """The fastest raw loop on one connection, and on as many as handlers."""
        ones = [cost.rate for name, cost in self.raw.items() if name.endswith(", 1")]
        return max(ones), max(cost.rate for cost in self.raw.values())

    def figures(self) -> Figures:
        """Return the rates, and what they are of the two limits."""
        one, most = self.limits
        found: Figures = {}
        for name, cost in self.raw.items():
            found[f"raw, {name}, commits/s"] = cost.rate
            found[f"raw, {name}, client CPU, µs/commit"] = cost.client_cpu
        for name, cost in self.sessions.items():
            found[f"bare sessions, {name}, commits/s"] = cost.rate
            found[f"bare sessions, {name}, client CPU, µs/commit"] = cost.client_cpu
        for name, cost in self.handlers.items():
            found |= {
                f"{name}, jobs/s": cost.rate,
                f"{name}, of raw on one connection": cost.rate / one,
                f"{name}, of the fastest raw": cost.rate / most,
                f"{name}, client CPU, µs/job": cost.client_cpu,
                f"{name}, server CPU, µs/job": cost.server_cpu,
            }
            if name in self.sessions:
                found[f"{name}, of bare sessions"] = cost.rate / self.sessions[name].rate
            if (alike := f"{name.partition(',')[0]}s, {self.concurrency}") in self.raw:
                found[f"{name}, of raw, {alike}"] = cost.rate / self.raw[alike].rate
        return found


async def transactions(url: str, *, jobs: int = 5_000, concurrency: int = 20) -> Committed:
    """Drain jobs whose handlers insert a row in `job.transaction()`; commit the same by the driver.

    Parameters:
        url: a database that a benchmark may use, see `Ground.prepare`.
        jobs: how many, for each kind of handler and each raw loop.
        concurrency: handlers at once in the worker, and connections of a raw loop.

    Raises:
        MutiraoError: the database is not ours to use, or some jobs were not done once.
    """
    handlers, loops, sessions = dict[str, Cost](), dict[str, Cost](), dict[str, Cost]()
    async with ground(url) as place:
        try:
            for name, task in _tasks(place):
                await _prepared(place)
                made = (task() for _ in range(jobs))
                settings = {"concurrency": concurrency}
                handlers[name] = await drained(place, made, jobs, 1, settings)
                await _expect(place, jobs)
                if name in _SESSIONS:
                    await _prepared(place)
                    bare = partial(_SESSIONS[name], make_url(url))
                    sessions[name] = await _raw(place, bare, jobs, concurrency)
            for kind in ("plain", "coroutine"):
                if (loop := effects.loop(place.url, kind)) is None:
                    continue
                for connections in sorted({1, concurrency}):
                    await _prepared(place)
                    loops[f"{_RAW[kind]}, {connections}"] = await _raw(
                        place, loop, jobs, connections
                    )
        finally:
            await place.change(effects.remove)
            await place.prepare()
    return Committed(concurrency=concurrency, handlers=handlers, raw=loops, sessions=sessions)


_RAW = {"plain": "threads", "coroutine": "coroutines"}
_SESSIONS = {"thread": bare_sessions.in_threads, "coroutine": bare_sessions.in_coroutines}


def _tasks(place: Ground) -> Iterator[tuple[str, Callable[[], NewJob]]]:
    """Yield the kinds of handler that the driver can serve, with what makes their jobs."""
    load = Load(place.url)
    named: dict[str, Any] = {
        "coroutine": load.effect,
        "coroutine, connection=True": load.effect_by_driver,
        "thread": load.effect_plainly,
        "thread, connection=True": load.effect_plainly_by_driver,
    }
    for name, task in named.items():
        if name.startswith("coroutine") or place.store.engines.has_sync:
            yield name, task.job


async def _prepared(place: Ground) -> None:
    await place.prepare()
    await place.change(effects.make)


async def _raw(
    place: Ground, loop: Callable[[Sequence[int], int], None], jobs: int, connections: int
) -> Cost:
    await place.fill(Load(place.url).jobs(jobs))
    async with _claimed(place, jobs) as ids:
        with measured(place.url) as spent:
            await asyncio.to_thread(loop, ids, connections)
    await place.expect(jobs)
    await _expect(place, jobs)
    return Cost.of(jobs, spent)


@asynccontextmanager
async def _claimed(place: Ground, jobs: int) -> AsyncIterator[list[int]]:
    """Claim all jobs in the name of a worker, as a loop could not complete them otherwise."""
    store, ids = place.store, list[int]()
    identity = NewWorker(
        name="raw", host="", pid=os.getpid(), queues=None, concurrency=1, version=""
    )
    worker = await store.register(identity, expiry=3_600)
    try:
        (head,) = await store.lanes(None)
        lane = head.lane
        while len(ids) < jobs:
            claims = await store.claim(worker, [lane], BATCH)
            lane = lane._replace(run_at=claims[-1].run_at, id=claims[-1].id)
            ids += [claim.id for claim in claims]
        yield ids
    finally:
        await store.retire(worker)


async def _expect(place: Ground, jobs: int) -> None:
    found = await place.ask(effects.count)
    if found != jobs:
        raise MutiraoError(f"{jobs} jobs should have written a row each, but there are {found}")
