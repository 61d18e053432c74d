"""Several processes work under limits, and some are killed: at no moment do too many jobs run."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from mutirao import JobState, Limit, Mutirao
from tests.support.waiting import until

pytestmark = pytest.mark.repeats("sqlite", decided="tests/conformance")

ROOT = Path(__file__).parents[3]
WORKERS, KILLS, JOBS, TENANTS = 3, 3, 900, 6
BY_TENANT, IN_ALL = 2, 7
# All that runs, in one statement, hence at one moment.
RUNNING = """
SELECT args, count(*) FROM (
    SELECT CAST(args AS text) AS args FROM mutirao_live l JOIN mutirao_job j ON j.id = l.id
    WHERE l.worker IS NOT NULL AND j.task = 'call'
) r GROUP BY args
"""


@contextmanager
def worker(url: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a worker; whatever happens, it does not stay."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}/src:{ROOT}", "RACE_DATABASE": url}
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.integration.limits.racing"], cwd=ROOT, env=environment
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@contextmanager
def looker(url: str) -> Iterator[Callable[[], list[tuple[str, int]]]]:
    """Give what counts the running jobs by arguments."""
    engine = create_engine(url)

    def look() -> list[tuple[str, int]]:
        with engine.begin() as conn:
            return [(str(row[0]), int(row[1])) for row in conn.execute(text(RUNNING))]

    try:
        yield look
    finally:
        engine.dispose()


async def watch(look: Callable[[], list[tuple[str, int]]], seen: list[int]) -> None:
    """Ask without a pause; raise at the first moment at which too many run."""
    while True:
        rows = await asyncio.to_thread(look)
        tenants = [args.partition('"tenant":')[2].strip()[:4] for args, n in rows for _ in range(n)]
        assert len(tenants) <= IN_ALL, tenants
        most = max(map(tenants.count, tenants), default=0)
        assert most <= BY_TENANT, tenants
        seen.append(len(tenants))


async def test_a_race(app: Mutirao, url: str) -> None:
    """Workers are killed and replaced; nobody overshoots, everything is done, no place is lost."""

    @app.task
    async def call(tenant: str, n: int) -> None: ...

    @app.task
    def compute(tenant: str, n: int) -> None: ...

    await app.limits.aput(Limit(BY_TENANT, by="tenant"), task="call")
    await app.limits.aput(Limit(IN_ALL), task="call")
    await app.aenqueue_many(
        (compute if n % 3 == 0 else call).job(f"t{n % TENANTS}", n) for n in range(JOBS)
    )
    seen: list[int] = []
    with ExitStack() as stack:
        look = stack.enter_context(looker(url))
        watching = asyncio.create_task(watch(look, seen))
        crew = [stack.enter_context(worker(url)) for _ in range(WORKERS)]
        for n in range(KILLS):
            done = JOBS * (n + 1) // (KILLS + 2)

            async def enough(done: int = done) -> bool:
                return watching.done() or await _finished(app) >= done

            await until(enough)
            crew[0].kill()
            crew = [*crew[1:], stack.enter_context(worker(url))]

        async def all_done() -> bool:
            return watching.done() or await _finished(app) == JOBS

        await until(all_done)
        watching.cancel()
        with pytest.raises(asyncio.CancelledError):
            await watching
    assert max(seen) > 1
    await app.store.rescue()
    assert [(r.running, r.parked) for r in await app.limits.alist() if r.running or r.parked] == []


async def _finished(app: Mutirao) -> int:
    finished = (JobState.SUCCEEDED, JobState.DEAD)
    return sum(count.jobs for count in await app.acounts() if count.state in finished)
