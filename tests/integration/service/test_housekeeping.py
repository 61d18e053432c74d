"""What equal workers do for each other: rescue, prune, statistics; one at a time for each duty."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from mutirao import JobState, Mutirao, OutcomeKind
from mutirao.engine.settings import WorkerSettings
from mutirao.model.jobs.records import JobFilter
from mutirao.sql.schema.tables import worker
from mutirao.sql.store.jobs import SqlStore
from tests.integration.service.kit import QUICK, Tables, line, program, suspended
from tests.integration.worker.kit import ended, outcomes, working
from tests.support.engine import Housekeeping
from tests.support.history import make_history, opened
from tests.support.waiting import until

pytestmark = pytest.mark.repeats(
    "postgresql", decided="conformance/src/mutirao_conformance/housekeeping.py"
)


@pytest.fixture
def tables(url: str) -> Tables:
    """The tables of the application's database."""
    return Tables(url)


class Counting(SqlStore):
    """Counts what is done, and the leases that were asked for and given."""

    done: Counter[str]

    def clone(self, connections: int = 1, *, within: float | None = None) -> SqlStore:
        """Return a store that counts in the same place."""
        other = Counting(self.engines.url, pool_size=connections)
        other.done = self.done
        return other

    async def lease(self, duty: str, *args: Any, **kwargs: Any) -> bool:
        """Ask for a duty."""
        given = await super().lease(duty, *args, **kwargs)
        self.done[f"{duty} asked"] += 1
        self.done[f"{duty} given"] += given
        return given

    async def prune(self, *args: Any, **kwargs: Any) -> int:
        """Prune."""
        self.done["prune"] += 1
        return await super().prune(*args, **kwargs)

    async def refresh_statistics(self) -> None:
        """Refresh."""
        self.done["statistics"] += 1
        await super().refresh_statistics()


async def test_one_worker_does_each_duty(url: str) -> None:
    """Three begin at once; the lease of each duty goes to one of them until its next turn."""
    store = Counting(url)
    store.done = Counter()
    app = Mutirao(store=store)

    @app.task
    async def idle() -> None: ...

    async with working(app), working(app), working(app):
        await until(lambda: store.done["prune asked"] == 3)
        await until(lambda: store.done["statistics asked"] == 3)
        await until(lambda: store.done["statistics"] and store.done["prune"] == 3)
    assert store.done["prune given"] == 1
    assert store.done["prune"] == 3  # once for each outcome
    assert store.done["statistics given"] == store.done["statistics"] == 1
    await app.aclose()


@pytest.mark.parametrize(
    ("days", "gone"),
    [(6, set[str]()), (8, {"succeeded", "cancelled"}), (91, {"succeeded", "cancelled", "dead"})],
)
async def test_pruning_by_age(url: str, days: int, gone: set[str]) -> None:
    """Each outcome has its retention; what is live stays, however old; batches do not matter."""
    settings = WorkerSettings(prune_batch=1)
    async with opened(url) as store:
        await make_history(store)
        await make_history(store)
        house = Housekeeping(store, settings, lambda: True)
        while await house.prune(now=datetime.now(UTC) + timedelta(days=days)):
            pass
        left = await store.jobs(JobFilter(limit=None))
        live = {JobState.RUNNING, JobState.SCHEDULED, JobState.READY}
        ends = {str(kind) for kind in OutcomeKind if kind.final}
        assert {str(job.state) for job in left} == {str(state) for state in live} | (ends - gone)
        assert len([job for job in left if job.state in live]) == 8


async def test_a_killed_worker(app: Mutirao, url: str) -> None:
    """Its job runs elsewhere within the expiry; the attempt counts, as lost."""

    @app.task
    async def hang_once() -> None: ...

    with program("works", url) as victim:
        id = (await hang_once.aenqueue()).id
        assert await asyncio.to_thread(line, victim) == "1"
        async with working(app, **QUICK):
            victim.kill()
            killed = datetime.now(UTC)
            job = await ended(app, id)
    assert outcomes(job) == ["lost", "succeeded"]
    assert [each.attempt for each in job.attempts] == [1, 2]
    assert job.attempts[0].error_type == "WorkerLost"
    assert job.attempts[0].finished_at - killed < 3 * timedelta(seconds=QUICK["expiry"])
    assert job.attempts[0].worker != job.attempts[1].worker


async def test_a_suspended_worker(app: Mutirao, url: str, tables: Tables, tmp_path: Path) -> None:
    """It finds itself replaced, drops what it held, and goes on under a new id."""

    @app.task
    async def hang_once() -> None: ...

    @app.task
    async def step(gate: str) -> None: ...

    async def renewed() -> bool:
        """Whether it works under a new id: until then it may claim, and lose that once more."""
        id = (await step.aenqueue(str(tmp_path))).id
        return (await ended(app, id)).attempts[-1].worker not in old

    def ids() -> set[int]:
        rows = tables.rows(select(worker.c.id).where(worker.c.pid == sleeper.pid))
        return {row[0] for row in rows}

    with program("works", url) as sleeper:
        id = (await hang_once.aenqueue()).id
        assert await asyncio.to_thread(line, sleeper) == "1"
        old = ids()
        await until(lambda: suspended(sleeper.pid, url))
        async with working(app, **QUICK):
            job = await ended(app, id)
            assert outcomes(job) == ["lost", "succeeded"]
            assert ids() == set()
        os.kill(sleeper.pid, signal.SIGCONT)
        await until(lambda: ids() - old)
        await until(renewed)
        again = (await hang_once.using(max_attempts=1).aenqueue()).id
        assert await asyncio.to_thread(line, sleeper) == "1"
        assert await app.acancel(again) == [again]
        last = await ended(app, again)
        sleeper.terminate()
        _, log = await asyncio.to_thread(sleeper.communicate)
    assert {each.worker for each in last.attempts}.isdisjoint(old)
    assert f"worker {min(old)} was taken for gone" in log
    assert outcomes(await app.ajob(id)) == ["lost", "succeeded"]
    # When its registration's answer was cut off, it registered twice: that id expires.
    assert tables.workers().isdisjoint(old | {last.attempts[-1].worker})
