"""What a worker and an enqueueing program send to PostgreSQL, as it travels on the wire.

A round trip is what a claim costs, whatever is in it, where the server is on another machine.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass

import pytest
from sqlalchemy import make_url

from mutirao.model.jobs.job import Claim, NewJob, NewWorker, OutcomeKind
from mutirao.model.jobs.outcome import SUCCEEDED, Outcome, Settlement
from mutirao.sql.connections.engines import Engines
from mutirao.sql.store.jobs import SqlStore
from mutirao_conformance.kit import job_of, take
from mutirao_conformance.topics import Noted, publish, subscribe
from tests.integration.plans.wire import Cost, Wire
from tests.support.postgresql import PostgresServer

pytestmark = pytest.mark.repeats("asyncpg", decided="tests/integration/plans/test_round_trips.py")

IN_PLAIN_TEXT = {
    "psycopg": {"sslmode": "disable", "gssencmode": "disable"},
    "asyncpg": {"ssl": "disable"},
}
WARM = 12  # drivers prepare a statement, and the server keeps its plan, after so many at the most
RETRIED = Outcome(OutcomeKind.RETRIED, after=60.0)
A_JOB = NewJob(task="t")


@dataclass(frozen=True, slots=True)
class Bench:
    """A store behind a wire, with a worker and jobs."""

    store: SqlStore
    worker: int

    async def take(self) -> list[Claim]:
        """Claim a few jobs."""
        await self.store.aenqueue([A_JOB] * 4)
        lanes = [head.lane for head in await self.store.lanes(None)]
        claims = await self.store.claim(self.worker, lanes, 4)
        assert len(claims) == 4
        return claims

    async def settlements(self, *outcomes: Outcome) -> list[Settlement]:
        """Claim a few jobs; say that they ended in these ways in turn."""
        taken = enumerate(await self.take())
        return [Settlement(c.id, c.run, outcomes[n % len(outcomes)]) for n, c in taken]


Act = Callable[[], Awaitable[object]]
Prepare = Callable[[Bench], Awaitable[Act]]


async def _claim(bench: Bench) -> Act:
    await bench.store.aenqueue([A_JOB] * 4)
    lanes = [head.lane for head in await bench.store.lanes(None)]
    return lambda: bench.store.claim(bench.worker, lanes, 4)


def _settle(*outcomes: Outcome, follow_up: NewJob | None = None) -> Prepare:
    async def prepare(bench: Bench) -> Act:
        ended = [s._replace(follow_up=follow_up) for s in await bench.settlements(*outcomes)]
        return lambda: bench.store.settle(bench.worker, ended)

    return prepare


async def _release(bench: Bench) -> Act:
    claims = await bench.take()
    return lambda: bench.store.release([(claim.id, claim.run) for claim in claims])


async def _fan_out(bench: Bench) -> Act:
    for id in ("s0", "s1"):
        await subscribe(bench.store, id)
    await publish(bench.store)
    [claim] = await take(bench.store, bench.worker, 1)
    return lambda: bench.store.subscriptions.fan_out(job_of(claim), Noted(), None)


def _plainly(act: Callable[[Bench], Awaitable[object]]) -> Prepare:
    async def prepare(bench: Bench) -> Act:
        return lambda: act(bench)

    return prepare


COSTS: dict[str, tuple[Cost, Prepare]] = {
    "lanes": (Cost(1, 1), _plainly(lambda bench: bench.store.lanes(None))),
    "claim": (Cost(1, 1), _claim),
    "finish": (Cost(1, 1), _settle(SUCCEEDED)),
    "resume": (Cost(1, 1), _settle(RETRIED)),
    "finish some and resume others": (Cost(4, 1), _settle(SUCCEEDED, RETRIED)),
    "finish with a follow-up": (Cost(4, 1), _settle(SUCCEEDED, follow_up=A_JOB)),
    "release": (Cost(1, 1), _release),
    "fan out": (Cost(1, 1), _fan_out),
    "held": (Cost(1, 1), _plainly(lambda bench: bench.store.held(bench.worker))),
    "beat": (Cost(1, 1), _plainly(lambda bench: bench.store.beat(bench.worker, expiry=60.0))),
    "rescue nobody": (Cost(1, 1), _plainly(lambda bench: bench.store.rescue())),
    "enqueue one": (Cost(1, 1), _plainly(lambda bench: bench.store.aenqueue([A_JOB]))),
    "enqueue a few": (Cost(3, 1), _plainly(lambda bench: bench.store.aenqueue([A_JOB] * 50))),
}


@pytest.fixture(scope="module")
def wire(postgres: PostgresServer) -> Iterator[Wire]:
    """A relay in front of the server."""
    with Wire(postgres.port) as wire:
        yield wire


@pytest.fixture(params=IN_PLAIN_TEXT)
def url(
    request: pytest.FixtureRequest, wire: Wire, postgres: PostgresServer, migrated_template: str
) -> Iterator[str]:
    """The URL of a migrated database behind the relay, for each driver."""
    with postgres.database(migrated_template) as name:
        straight = make_url(postgres.url(name, request.param))
        relayed = straight.set(port=wire.port, query=IN_PLAIN_TEXT[request.param])
        yield relayed.render_as_string(hide_password=False)


@pytest.fixture
async def bench(url: str) -> AsyncIterator[Bench]:
    """A store that keeps one connection, with a worker."""
    store = SqlStore(url, pool_size=1)
    new = NewWorker(name="w", host="h", pid=1, queues=None, concurrency=20, version="0")
    yield Bench(store, await store.register(new, expiry=3600.0))
    await store.close()


@pytest.mark.parametrize("what", COSTS)
async def test_cost(bench: Bench, wire: Wire, what: str) -> None:
    """As many round trips and commits as expected, once everything is prepared."""
    expected, prepare = COSTS[what]
    for _ in range(WARM):
        await (await prepare(bench))()
    act = await prepare(bench)
    with wire.costs() as costs:
        await act()
    assert costs == [expected]


async def test_enqueueing_many_costs_as_much_for_each_chunk(bench: Bench, wire: Wire) -> None:
    """Ids, jobs and live rows travel for each 5,000; what goes around them only once."""
    for _ in range(WARM):
        await bench.store.aenqueue([A_JOB] * 201)
    for chunks in (1, 2, 3):
        with wire.costs() as costs:
            await bench.store.aenqueue([A_JOB] * (chunks * 5_000))
        assert costs == [Cost(6 + 3 * chunks, 1)]


@pytest.mark.parametrize("url", ["psycopg"], indirect=True)
def test_enqueueing_in_the_callers_transaction(url: str, wire: Wire) -> None:
    """One round trip for one job or a few, and no commit."""
    store, engines = SqlStore(url), Engines(url)
    with engines.sync().connect() as connection:
        for count in (1, 50):
            for _ in range(WARM):
                store.enqueue([A_JOB] * count, connection)
            with wire.costs() as costs:
                store.enqueue([A_JOB] * count, connection)
            assert costs == [Cost(1, 0)]
    engines.close_sync()


@pytest.mark.parametrize("url", ["psycopg"], indirect=True)
def test_enqueueing_synchronously(url: str, wire: Wire) -> None:
    """A job in a transaction of its own costs one round trip here too."""
    store = SqlStore(url, pool_size=1)
    for _ in range(WARM):
        store.enqueue([A_JOB])
    with wire.costs() as costs:
        store.enqueue([A_JOB])
    assert costs == [Cost(1, 1)]
    store.engines.close_sync()
