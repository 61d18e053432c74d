"""Several processes at the same schedules, one of them killed: one job for each tick."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, text

from mutirao import Mutirao
from mutirao.model.schedules import schedule_rules
from mutirao.sql.statements.schedule_changes import Amending
from mutirao.sql.store.jobs import SqlStore
from mutirao_conformance.kit import at
from mutirao_conformance.schedules import plan, scheduled
from tests.support.waiting import until

pytestmark = pytest.mark.repeats("sqlite", decided="tests/conformance")

ROOT = Path(__file__).parents[3]
TICKS = 100  # of each schedule
NAMES = ("a", "b", "c", "d", "e")


@contextmanager
def racer(url: str, wrong: float = 0) -> Iterator[subprocess.Popen[bytes]]:
    """Run the program that ticks, by a wrong clock; whatever happens, it does not stay."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.integration.schedules.racing", url, str(wrong)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT}/src:{ROOT}"},
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


async def test_a_race(app: Mutirao, url: str) -> None:
    """Three processes and a replacement for the one that is killed; their clocks differ."""
    store = SqlStore(url)
    every = timedelta(milliseconds=10)
    terms: dict[str, Any] = {"catch_up": "all", "catch_up_limit": 3, "max_runs": TICKS}
    for name in NAMES:
        await plan(store, scheduled(name, seconds=every.total_seconds(), **terms), now=None)

    async def ticked(number: int) -> bool:
        return all(each.runs >= number for each in await store.schedules.listed())

    with racer(url) as first, racer(url, -0.3) as second, racer(url) as victim:
        await until(lambda: ticked(TICKS // 4))
        victim.kill()
        with racer(url, 0.3) as late:
            await until(lambda: ticked(TICKS))
            assert [process.wait(100) for process in (first, second, late)] == [0, 0, 0]
    jobs = await app.ajobs(limit=None)
    for name in NAMES:
        made = (job.metadata for job in jobs if job.metadata["schedule"] == name)
        ticks = sorted(datetime.fromisoformat(each["tick"]) for each in made)
        assert len(ticks) == TICKS
        assert all(later - sooner >= every for sooner, later in pairwise(ticks))
        assert all((later - ticks[0]) % every == timedelta(0) for later in ticks)
    await store.close()


async def test_who_waited_sees_the_job_that_was_made_meanwhile(pg_url: str) -> None:
    """A tick that waits for the one before it must not miss that job, and overlap it."""
    store, engine = SqlStore(pg_url), create_engine(pg_url)
    await plan(store, scheduled(overlap="skip"))
    with engine.connect() as conn:
        first = Amending(
            store._sender.dialect, store._intake.enqueue, {"s": schedule_rules.tick}, now=at(10)
        )
        assert len(first.write(conn)[0].jobs) == 1
        second = asyncio.create_task(store.schedules.amend("s", schedule_rules.tick, now=at(20)))
        await until(lambda: _somebody_waits(engine))
        conn.commit()
    done = await second
    assert done.jobs == ()
    assert done.state is not None
    assert (done.state.skipped, done.state.next_at) == (1, at(30))
    engine.dispose()
    await store.close()


def _somebody_waits(engine: Engine) -> bool:
    waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted"
    with engine.connect() as conn:
        return bool(conn.execute(text(waiting)).scalar_one())
