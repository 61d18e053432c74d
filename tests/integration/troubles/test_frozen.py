"""A worker that stands still for longer than its expiry, and then goes on where it was."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from pathlib import Path

import pytest

from mutirao import Job, Mutirao
from tests.integration.service.kit import QUICK, Tables, all_finished, program, suspended
from tests.integration.worker.kit import working
from tests.support.waiting import until

pytestmark = pytest.mark.repeats("sqlite", decided="tests/conformance")

JOBS = 200


async def test_each_start_leaves_its_attempt(app: Mutirao, url: str, tmp_path: Path) -> None:
    """It starts nothing that it had claimed, or claims, before it knows that it still lives."""
    starts, gate, tables = tmp_path / "starts", tmp_path / "gate", Tables(url)

    @app.task
    def note(job: Job, starts: str, gate: str) -> None:
        with Path(starts).open("a") as file:
            file.write(f"{job.id}\n")

    def started() -> Counter[int]:
        return Counter(int(line) for line in starts.read_text().split())

    with program("works", url) as sleeper:
        ids = await app.aenqueue_many([note.job(str(starts), str(gate)) for _ in range(JOBS)])
        await until(lambda: starts.exists() and len(started()) > 1)
        await until(lambda: suspended(sleeper.pid, url))
        begun = len(started())
        gate.touch()
        async with working(app, **QUICK):
            await until(lambda: len(started()) == JOBS)  # those that it held as well
            os.kill(sleeper.pid, signal.SIGCONT)
            await all_finished(tables, JOBS)
        await until(lambda: len(tables.workers()) == 1)  # it has come back
        sleeper.terminate()
        await asyncio.to_thread(sleeper.wait)
    # One may have been about to begin.
    assert JOBS + begun <= sum(started().values()) <= JOBS + begun + 1
    for id in ids:
        assert started()[id] <= len((await app.ajob(id)).attempts)
