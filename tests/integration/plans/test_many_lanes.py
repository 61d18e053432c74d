"""Lanes in thousands, each with a job: they are read and claimed many at a time.

What a claim costs is counted, not timed: round trips on a server, statements in a file.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from mutirao.model.jobs.job import Lane, NewJob
from mutirao.model.limits.limits import Limit
from mutirao.sql import migrations
from mutirao.sql.drivers.pymysql import OwnPyMysqlDriver
from mutirao.sql.statements import doctor, lanes
from mutirao.sql.store.jobs import SqlStore
from mutirao_conformance.kit import join, put
from tests.support.history import opened
from tests.support.mariadb import MysqlServer

LANES, AT_ONCE = 2_000, 200
FAT = 300  # jobs of one lane among them


@pytest.fixture
async def store(mysql: MysqlServer) -> AsyncIterator[SqlStore]:
    """A store on MariaDB whose jobs are each in a queue of their own, but for one queue."""
    name = mysql.create_database()
    migrations.upgrade(mysql.url(name))
    async with opened(mysql.url(name)) as store:
        await put(store, *(NewJob(task="t", args="{}", queue=f"q{n:04}") for n in range(LANES)))
        await put(store, *(NewJob(task="t", args="{}", queue="q0100") for _ in range(FAT - 1)))
        yield store
    mysql.drop_database(name)


@pytest.fixture
def trips(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that were sent to the server by connections of ours past SQLAlchemy."""
    sent: list[str] = []
    say = OwnPyMysqlDriver.say

    def noted(self: OwnPyMysqlDriver, sql: str, params: tuple[Any, ...]) -> Any:
        sent.append(sql)
        return say(self, sql, params)

    monkeypatch.setattr(OwnPyMysqlDriver, "say", noted)
    return sent


async def test_their_heads(store: SqlStore, trips: list[str]) -> None:
    """All are read, each with its first job, in a hundredth of as many round trips."""
    heads = await store.lanes(None)
    assert [head.lane.queue for head in heads] == [f"q{n:04}" for n in range(LANES)]
    assert len(trips) <= LANES / 50


async def test_a_claim(store: SqlStore, trips: list[str]) -> None:
    """It takes as many as it is to in a few round trips, in the order of the lanes."""
    there = [head.lane for head in await store.lanes(None)]
    worker = await join(store, now=None)
    trips.clear()
    claims = await store.claim(worker, there, AT_ONCE)
    order = [f"q{n:04}" for n in range(100)] + ["q0100"] * 100
    assert [claim.queue for claim in claims] == order
    assert len(trips) <= 25
    ids = [claim.id for claim in claims]
    assert ids == sorted(ids)


@pytest.mark.parametrize("limit", [Limit(1_000), Limit(10_000, per=60.0, burst=1_000)])
async def test_a_claim_within_a_limit(store: SqlStore, trips: list[str], limit: Limit) -> None:
    """It takes as many, in the same order, in not many more."""
    await store.limits.put(limit.on(task="t"))
    there = [head.lane for head in await store.lanes(None)]
    worker = await join(store, now=None)
    assert len(await store.claim(worker, there[:1], 1)) == 1  # which makes the counter
    trips.clear()
    claims = await store.claim(worker, there[1:1001], AT_ONCE)
    order = [f"q{n:04}" for n in range(1, 100)] + ["q0100"] * 101
    assert [claim.queue for claim in claims] == order
    assert len(trips) <= 40


async def test_a_claim_within_limits_of_each_lane(store: SqlStore, trips: list[str]) -> None:
    """Where each job counts for itself, some dozens are counted in a transaction."""
    await store.limits.put(Limit(5, by="n").on(task="t"))
    args = (f'{{"n": {n}}}' for n in range(LANES))
    await put(
        store, *(NewJob(task="t", args=said, queue=f"r{n:04}") for n, said in enumerate(args))
    )
    mine = [head.lane for head in await store.lanes(None) if head.lane.queue.startswith("r")]
    worker = await join(store, now=None)
    trips.clear()
    claims = await store.claim(worker, mine[:1000], AT_ONCE)
    assert len(claims) == AT_ONCE
    assert len(trips) <= 160  # a counter is made for each, in a transaction before


async def test_a_claim_of_what_is_gone(store: SqlStore, trips: list[str]) -> None:
    """A thousand lanes that are empty by now are passed in a few round trips, too."""
    there = [head.lane for head in await store.lanes(None)]
    worker = await join(store, now=None)
    while await store.claim(worker, there[:1000], AT_ONCE):
        pass
    trips.clear()
    assert len(await store.claim(worker, [*there[:1000], *there[1000:1100]], AT_ONCE)) == 100
    assert len(trips) <= 60


async def test_no_lane_starves(store: SqlStore) -> None:
    """Nobody is passed over: asked again and again, all are taken once."""
    worker, taken = await join(store, now=None), list[int]()
    while there := [head.lane for head in await store.lanes(None)]:
        claims = await store.claim(worker, there, 137)
        taken += [claim.id for claim in claims]
    assert len(taken) == len({*taken}) == LANES + FAT - 1


async def test_what_others_hold(store: SqlStore) -> None:
    """A job that somebody else has locked is passed over, not waited for."""
    heads: list[Lane] = [head.lane for head in await store.lanes(None)]
    worker = await join(store, now=None)
    with store.engines.sync().begin() as connection:
        held = {heads[n].id for n in range(0, 100, 7)}
        listed = ", ".join(map(str, held))
        connection.exec_driver_sql(f"SELECT id FROM mutirao_live WHERE id IN ({listed}) FOR UPDATE")  # noqa: S608
        claims = await store.claim(worker, heads[:100], AT_ONCE)
    assert {claim.id for claim in claims} == {lane.id for lane in heads[:100]} - held


async def test_the_doctor_names_them(store: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where lanes are many, it says what that costs."""
    monkeypatch.setattr(lanes, "MANY_LANES", LANES - 1)
    [found] = [f for f in await doctor.examine(store.engines, {"t"}) if f.about == "lanes"]
    assert "2,000 lanes" in found.found
