"""Whoever locks live rows of several jobs does so in the order of their ids, whatever it does.

Somebody holds one of these rows. Who comes to it and waits has locked those before it, and none of
those after it. The rows lie in the table in the opposite order.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

import pytest

from mutirao.model.graphs.graph import OnDead, group
from mutirao.model.jobs.change import Change
from mutirao.model.jobs.job import NewJob, OutcomeKind
from mutirao.model.jobs.outcome import SUCCEEDED, Outcome, Settlement
from mutirao.model.jobs.records import JobFilter
from mutirao.model.keys.uniqueness import OnConflict, Unique
from mutirao.sql.store.jobs import SqlStore
from mutirao_conformance.graphs import write_graph
from mutirao_conformance.kit import due, join, put, take
from tests.integration.transactions.kit import Others
from tests.support.history import opened
from tests.support.waiting import soon

pytestmark = pytest.mark.usefixtures("patient")

NUMBER = 9
TURN_ROUND = """
CREATE TEMPORARY TABLE kept ON COMMIT DROP AS SELECT * FROM mutirao_live;
DELETE FROM mutirao_live;
INSERT INTO mutirao_live SELECT * FROM kept ORDER BY id DESC
"""
RETRIED = Outcome(OutcomeKind.RETRIED, error_type="E", error="e")


def keyed(n: int, on_conflict: OnConflict) -> NewJob:
    """Return the job of a key."""
    return due(key=f"k{n}", unique=Unique(on_conflict=on_conflict))


@dataclass
class Scene:
    """Jobs that run, each with a key, and behind each of them one that waits for its end."""

    store: SqlStore
    others: Others
    worker: int
    runs: dict[int, int]  # of the running ones, by their ids
    waiting: list[int]

    def settlements(self, *, keyed: bool, retried: int = 0) -> list[Settlement]:
        """Return what ends the running ones, or some of them."""
        how = [RETRIED] * retried + [SUCCEEDED] * (NUMBER - retried)
        runs = zip(reversed(self.runs.items()), how, strict=True)
        return [Settlement(id, run, outcome, keyed=keyed) for (id, run), outcome in runs]

    def commit_of_a_caller(self) -> None:
        """Replace all that wait, the last one first, each in a call of its own."""
        with self.others.session() as caller:
            for n in reversed(range(NUMBER)):
                self.store.enqueue([keyed(n, OnConflict.RERUN)], caller)
            caller.commit()


Act = Callable[[Scene], Awaitable[object]]

ACTS: dict[str, Act] = {
    "settle": lambda s: s.store.settle(s.worker, s.settlements(keyed=False)),
    "retry": lambda s: s.store.settle(s.worker, s.settlements(keyed=True, retried=NUMBER)),
    "release": lambda s: s.store.release(sorted(s.runs.items(), reverse=True)),
    "retire": lambda s: s.store.retire(s.worker),
}
# Those that those meet, too, who wait for the end of others.
ACTS_ON_ALL: dict[str, Act] = {
    "settle keyed": lambda s: s.store.settle(s.worker, s.settlements(keyed=True)),
    "settle mixed": lambda s: s.store.settle(s.worker, s.settlements(keyed=True, retried=4)),
    "cancel": lambda s: s.store.cancel(JobFilter()),
    "run_now": lambda s: s.store.run_now(JobFilter()),
    "change": lambda s: s.store.change(JobFilter(), Change(priority=5, queue="q")),
    "commit": lambda s: asyncio.to_thread(s.commit_of_a_caller),
}


@pytest.fixture
async def scene(pg_url: str, others: Others) -> AsyncIterator[Scene]:
    """Jobs of nine keys, twice."""
    async with opened(pg_url) as store:
        worker = await join(store)
        await put(store, *(keyed(n, OnConflict.KEEP) for n in range(NUMBER)))
        runs = {claim.id: claim.run for claim in await take(store, worker)}
        waiting = await put(store, *(keyed(n, OnConflict.RERUN) for n in range(NUMBER)))
        others.rows(TURN_ROUND)
        yield Scene(store, others, worker, dict(sorted(runs.items())), sorted(waiting))


async def locked_before(scene: Scene, act: Act, middle: int) -> list[int]:
    """Return what is locked when somebody comes to a row that is held, and waits for it."""
    with scene.others.session() as other:
        other.execute("SELECT FROM mutirao_live WHERE id = %s FOR UPDATE", [middle])
        acting = asyncio.ensure_future(act(scene))
        await scene.others.until_someone_waits()
        with scene.others.session() as third:
            free = third.execute("SELECT id FROM mutirao_live FOR UPDATE SKIP LOCKED").fetchall()
    await soon(acting)
    return sorted({*scene.runs, *scene.waiting} - {id for (id,) in free} - {middle})


@pytest.mark.parametrize("act", [*ACTS, *ACTS_ON_ALL])
async def test_those_that_run(scene: Scene, act: str) -> None:
    """The first four, when the fifth is held."""
    first = [*scene.runs][: NUMBER // 2]
    middle = [*scene.runs][NUMBER // 2]
    assert await locked_before(scene, (ACTS | ACTS_ON_ALL)[act], middle) == first


@pytest.mark.parametrize("act", ACTS_ON_ALL)
async def test_those_that_wait(scene: Scene, act: str) -> None:
    """All that run, and the first four that wait, when the fifth of those is held."""
    before = [*scene.runs, *scene.waiting[: NUMBER // 2]]
    assert await locked_before(scene, ACTS_ON_ALL[act], scene.waiting[NUMBER // 2]) == before


async def test_those_that_are_compensated(pg_url: str, others: Others) -> None:
    """All live steps of a graph, with those that run: one of them may be released meanwhile."""
    async with opened(pg_url) as store:
        worker = await join(store)
        steps = group(*(due(priority=NUMBER - n) for n in range(NUMBER)))
        jobs = sorted(await write_graph(store, steps, on_dead=OnDead.COMPENSATE))
        claims = await take(store, worker, NUMBER // 2)  # the last ones
        others.rows(TURN_ROUND)
        dead = Outcome(OutcomeKind.DEAD, error_type="E", error="e")
        ends = [Settlement(claim.id, claim.run, dead, linked=True) for claim in claims[:1]]
        scene = Scene(store, others, worker, {claim.id: claim.run for claim in claims}, jobs)
        assert (
            await locked_before(scene, lambda s: s.store.settle(s.worker, ends), jobs[-1])
            == (jobs[:-1])
        )
