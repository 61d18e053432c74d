"""Several processes enqueue jobs of the same keys while workers take them: no order is lost."""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import PIPE, Process
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from mutirao.model.jobs.job import JobState, OutcomeKind
from mutirao.model.jobs.records import JobFilter, JobRecord
from mutirao.sql.store.jobs import SqlStore
from mutirao_conformance.kit import ended, join, take
from tests.support.waiting import soon

pytestmark = pytest.mark.repeats("sqlite", decided="tests/conformance")

ROOT = Path(__file__).parents[3]
RACERS, TIMES = 3, 60
Told = list[tuple[Any, ...]]


async def racer(url: str) -> Process:
    """Start a program that is about to enqueue."""
    program = "tests.integration.uniqueness.racing_supersede"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", program, url, str(TIMES)),
        cwd=ROOT,
        env={"PYTHONPATH": f"{ROOT}/src:{ROOT}"},
        stdin=PIPE,
        stdout=PIPE,
    )
    assert process.stdout is not None
    assert await soon(process.stdout.readline()) == b"ready\n"
    return process


async def told_by(process: Process) -> Told:
    """Let a program go, and return what it was told."""
    said, _ = await soon(process.communicate(b"go\n"), deadline=100)
    assert process.returncode == 0
    return [tuple(json.loads(line)) for line in said.splitlines()]


async def work(store: SqlStore, done: asyncio.Event, ran: list[tuple[str | None, int]]) -> None:
    """Take what is due, some of it twice, until nothing is left; never two of a key at once."""
    worker = await join(store, expiry=1e6, now=None)
    while True:
        over = done.is_set()
        claims = await take(store, worker, 9, now=None)  # type: ignore[arg-type]
        assert len({claim.key for claim in claims}) == len(claims)
        for claim in claims:
            again = claim.attempt == 1 and claim.id % 5 == 0
            kind = OutcomeKind.RETRIED if again else OutcomeKind.SUCCEEDED
            ran.extend([] if again else [(claim.key, claim.id)])
            settled = await store.settle(worker, [ended(claim, kind, after=0.0)])
            assert settled == {claim.id}
        if over and not claims and not await store.lanes(None):
            return
        await asyncio.sleep(0)


@pytest.mark.repeats("0", decided="tests/integration/uniqueness/test_supersede_race.py")
@pytest.mark.parametrize("workers", [0, 2])
async def test_a_race(url: str, workers: int) -> None:
    """Every job either ran, in the order of its key, or says by which newer one it was dropped."""
    stores, done = [SqlStore(url) for _ in range(workers or 1)], asyncio.Event()
    ran: list[tuple[str | None, int]] = []
    racers = await asyncio.gather(*(racer(url) for _ in range(RACERS)))
    try:
        working = [asyncio.create_task(work(store, done, ran)) for store in stores[:workers]]
        seen = [each for seen in await asyncio.gather(*map(told_by, racers)) for each in seen]
        done.set()
        working = working or [asyncio.create_task(work(stores[0], done, ran))]
        await soon(asyncio.gather(*working), deadline=100)
        jobs = {job.id: job for job in await stores[0].jobs(JobFilter(limit=None))}
    finally:
        for process in racers:
            if process.returncode is None:
                process.kill()
                await process.wait()
        for store in stores:
            await store.close()
    assert sorted(jobs) == sorted(id for _, id, _, _ in seen)
    assert len(seen) == RACERS * TIMES
    in_order(ran)
    for _, id, kind, how in seen:
        fits(jobs, id, kind, how)


def in_order(ran: list[tuple[str | None, int]]) -> None:
    """Check that the jobs of each key ran in the order in which they were enqueued."""
    by_key = defaultdict(list)
    for key, id in ran:
        by_key[key].append(id)
    assert all(ids == sorted(ids) for ids in by_key.values())


def fits(jobs: dict[int, JobRecord], id: int, kind: str, how: str) -> None:
    """Check what became of a job, and that nothing was merged that had begun."""
    job = jobs[id]
    if job.state == JobState.SUCCEEDED:
        assert job.args["type"] in (kind, "Create" if how == "merged" else kind)
        return
    assert job.state == JobState.CANCELLED
    assert job.attempt == 0
    assert job.error is not None
    other = jobs[int(job.error.rpartition(" ")[2])]
    if job.error.startswith("superseded together"):
        assert how == "superseded"
        assert other.id < id
        assert other.error == f"superseded by job {id}"
    else:
        assert other.id > id
