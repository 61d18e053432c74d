"""`webhooks`: deliveries beside a bare loop of the client, and beside a peer that is silent."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import chain
from time import perf_counter, process_time

import httpx2
from sqlalchemy import Connection, func, select

from benchmarks.figures import Figures
from benchmarks.ground import Ground, ground
from benchmarks.load import PREFIX
from benchmarks.posting import Posted, check, posted
from benchmarks.receiver import ANSWERING, SILENT, receiver
from mutirao import Mutirao
from mutirao.model.jobs.job import NewJob
from mutirao.model.webhooks.endpoints import (
    FAIR_BY,
    TEST_TOPIC,
    USUAL_CONCURRENCY,
    WEBHOOK_QUEUE,
    WEBHOOK_TASK,
)
from mutirao.sql.schema import tables
from mutirao.sql.schema.tables import breaker, webhook_attempt
from mutirao.webhooks import WebhookSettings, new_secret

AT_ONCE = USUAL_CONCURRENCY  # to one endpoint
SLOTS = 100
# Seconds between two looks, which read all attempts: seldom while many are left.
LOOK_EVERY, LOOK_WITHIN = 0.05, 1.0
GIVE_UP_AFTER = 600.0  # seconds
_HEALTHY, _SILENT = "bench-healthy", "bench-silent"
_PAYLOAD = {"order_id": 7, "total": 19.9, "note": "x" * 60}
_SETTINGS = WebhookSettings(
    schemes=["http"], ports=range(1024, 65_536), networks=[f"{ANSWERING}/32", f"{SILENT}/32"]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhooks:
    """Requests a second: of a bare loop, of deliveries, and of these beside a silent peer's.

    `asked` is how many requests the silent peer got. The last two are microseconds of a processor
    that this process, the client or the worker, has spent on each: what else runs matters less.
    """

    jobs: int
    bare: float
    delivered: float
    beside: float
    asked: int
    bare_cpu: float
    delivered_cpu: float
    peers: Mapping[str, Posted] = field(default_factory=dict)

    def figures(self) -> Figures:
        """Return the rates, and what they are of each other."""
        found: Figures = {
            "bare client, requests/s": self.bare,
            "deliveries/s": self.delivered,
            "deliveries, of the bare client": self.delivered / self.bare,
            "beside a silent peer, deliveries/s": self.beside,
            "beside a silent peer, of those alone": self.beside / self.delivered,
            "attempts at the silent peer": self.asked,
            "bare client, CPU µs/request": self.bare_cpu,
            "deliveries, CPU µs each": self.delivered_cpu,
            "CPU of a delivery, of the bare client's": self.delivered_cpu / self.bare_cpu,
        }
        for name, theirs in self.peers.items():
            found[f"{name}, deliveries/s"] = theirs.delivered
            found[f"{name}, CPU µs each"] = theirs.cpu
            found[f"deliveries, of {name}'s"] = self.delivered / theirs.delivered
        return found


async def webhooks(url: str, *, jobs: int = 10_000, peers: Sequence[str] = ()) -> Webhooks:
    """Send so many webhooks to a local server that keeps connections, by fifty at once each time.

    First by a bare loop of the client, then as signed deliveries by a worker, from its start until
    all have succeeded, then while as many wait for a server that never answers; then by peers.

    Parameters:
        url: a database that a benchmark may use, see `Ground.prepare`.
        jobs: how many, each time.
        peers: of `OF_WEBHOOKS`, see `posted`.

    Raises:
        MutiraoError: the database is not ours to use, or a peer cannot work there.
    """
    check(peers, url)
    with receiver() as (healthy, silent):
        async with ground(url) as place:
            cpu = process_time()
            bare = await _bare(healthy, jobs)
            bare_cpu = process_time() - cpu
            async with _endpoints(place, healthy, silent):
                took, cpu = await _delivered(place, jobs, _to(_HEALTHY, ANSWERING, jobs))
                delivered, delivered_cpu = jobs / took, cpu
                await _empty(place)
                both = zip(_to(_SILENT, SILENT, jobs), _to(_HEALTHY, ANSWERING, jobs), strict=True)
                took, _ = await _delivered(place, jobs, chain.from_iterable(both))
                beside = jobs / took
                asked = await place.ask(lambda conn: _attempts(conn, _SILENT))
            others = {
                each: await posted(each, place, healthy, jobs=jobs, at_once=AT_ONCE)
                for each in peers
            }
    each = 1e6 / jobs
    return Webhooks(
        jobs=jobs,
        bare=bare,
        delivered=delivered,
        beside=beside,
        asked=asked,
        bare_cpu=bare_cpu * each,
        delivered_cpu=delivered_cpu * each,
        peers=others,
    )


async def _bare(url: str, jobs: int) -> float:
    """Return requests a second of coroutines that post one after the other."""
    body, left = json.dumps(_PAYLOAD).encode(), iter(range(jobs))

    async def post(client: httpx2.AsyncClient) -> None:
        for _ in left:
            answer = await client.post(url, content=body)
            answer.raise_for_status()

    async with httpx2.AsyncClient(trust_env=False) as client:
        started = perf_counter()
        await asyncio.gather(*(post(client) for _ in range(AT_ONCE)))
        return jobs / (perf_counter() - started)


@asynccontextmanager
async def _endpoints(place: Ground, healthy: str, silent: str) -> AsyncIterator[None]:
    """Put both endpoints, and remove them with all that was for them."""
    app = Mutirao(place.url)
    secret = new_secret()
    try:
        await app.endpoints.aput(_HEALTHY, healthy, f"{PREFIX}topic", secret=secret)
        await app.endpoints.aput(_SILENT, silent, f"{PREFIX}topic", secret=secret)
        yield
    finally:
        await _empty(place)
        for id in (_HEALTHY, _SILENT):
            await app.endpoints.aremove(id)
        await app.aclose()


def _to(endpoint: str, host: str, jobs: int) -> Iterator[NewJob]:
    """Yield deliveries such as the fan-out makes, each with its payload."""
    event = {"id": 0, "topic": TEST_TOPIC, "subscription": f"endpoint:{endpoint}", "attempt": 1,
             "published_at": "2026-01-01T00:00:00Z"}  # fmt: skip
    told = {"endpoint": endpoint, "host": host, "event": event, "payload": _PAYLOAD}
    one = NewJob(task=WEBHOOK_TASK, queue=WEBHOOK_QUEUE, args=json.dumps(told), fair_by=FAIR_BY)
    yield from (one for _ in range(jobs))


async def _delivered(place: Ground, jobs: int, deliveries: Iterator[NewJob]) -> tuple[float, float]:
    """Return the seconds from a worker's start until so many were delivered to the healthy one.

    And those of a processor that this process has spent meanwhile.
    """
    await place.store.aenqueue(list(deliveries))
    await place.store.refresh_statistics()
    app = Mutirao(place.url)
    settings = {"queues": [WEBHOOK_QUEUE], "concurrency": SLOTS, "log_jobs": "failures"}
    started, cpu = perf_counter(), process_time()
    async with app.worker(webhooks=_SETTINGS, grace=0.0, **settings):  # type: ignore[arg-type]
        while (found := await place.ask(lambda conn: _attempts(conn, _HEALTHY))) < jobs:
            if (since := perf_counter() - started) > GIVE_UP_AFTER:
                raise TimeoutError(f"not all were delivered after {GIVE_UP_AFTER:g} s")
            left = (jobs - found) * since / found if found else 0.0
            await asyncio.sleep(max(LOOK_EVERY, min(left / 2, LOOK_WITHIN)))
        took = perf_counter() - started, process_time() - cpu
    await app.aclose()
    return took


def _attempts(conn: Connection, endpoint: str) -> int:
    mine = webhook_attempt.c.endpoint == endpoint
    counted = select(func.count()).select_from(webhook_attempt).where(mine)
    return conn.execute(counted).scalar_one()


async def _empty(place: Ground) -> None:
    """Remove what was delivered and what waits, and what is held by breakers."""
    for id in (_HEALTHY, _SILENT):
        await place.store.endpoints.resume(id)
    filled = webhook_attempt, breaker, tables.live, tables.attempt, tables.job
    await place.change(lambda conn: place.instruments.empty(conn, filled))
    await place.prepare()
