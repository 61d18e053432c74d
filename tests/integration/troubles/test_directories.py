"""A handler that changes the directory of its process: a relative path goes on meaning one file."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from mutirao import Mutirao
from tests.integration.worker.kit import ended, outcomes, working


async def test_a_relative_path_is_that_of_the_start(
    migrated_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All connections that are opened later, of the worker and of callers, find the same file."""
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    shutil.copy(migrated_file, first / "jobs.db")
    monkeypatch.chdir(first)
    app = Mutirao("sqlite:///jobs.db")

    @app.task
    async def leave() -> None:
        os.chdir(second)

    @app.task
    async def step() -> None: ...

    async with working(app, heartbeat=0.2):
        for each in (leave, step):
            assert outcomes(await ended(app, (await each.aenqueue()).id)) == ["succeeded"]
        later = await step.aenqueue()
        assert outcomes(await ended(app, later.id)) == ["succeeded"]
    await app.aclose()
    app.enqueue_many([step.job()])
    assert list(second.iterdir()) == []
    assert app.database == "sqlite:///jobs.db"  # as it was given
    await app.aclose()
