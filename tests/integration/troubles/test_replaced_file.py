"""An SQLite file that is replaced by another one of the same name while a worker runs."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from mutirao import Job, Mutirao
from tests.integration.service.kit import Tables
from tests.integration.worker.kit import ended, outcomes, working


async def test_the_worker_goes_on_in_the_new_one(
    lite_url: str, migrated_file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What the old one had is not there; the log says it, and new jobs run."""
    app = Mutirao(lite_url)

    @app.task
    async def step() -> None: ...

    @app.task
    async def commit(job: Job) -> None:
        async with job.transaction(connection=True) as own:
            await own.execute("SELECT 1")

    @app.task
    def commit_plainly(job: Job) -> None:
        with job.transaction(connection=True) as own:
            own.execute("SELECT 1")

    path = Path(lite_url.removeprefix("sqlite:///"))
    async with working(app, heartbeat=0.2, expiry=5, poll=0.2):
        for each in (step, commit, commit_plainly):
            await ended(app, (await each.aenqueue()).id)
        await asyncio.to_thread(replace, path, migrated_file)
        for each in (step, commit, commit_plainly):
            assert outcomes(await ended(app, (await each.aenqueue()).id)) == ["succeeded"]
    await app.aclose()
    assert "shop.db is another file than it was" in caplog.text
    assert Tables(lite_url).workers() == set()


def replace(path: Path, by: Path) -> None:
    """Put another file in a file's place, as restoring a backup does."""
    for extra in ("-wal", "-shm"):
        path.with_name(path.name + extra).unlink(missing_ok=True)
    shutil.copy(by, path.with_suffix(".new"))
    path.with_suffix(".new").rename(path)
