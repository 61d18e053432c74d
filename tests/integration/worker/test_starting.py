"""Handlers that spoil what later handlers start in: children start anyway, or their worker ends."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any

import pytest

from mutirao import JobRecord, JobState, Mutirao, NewJob
from mutirao.errors import HandlersCannotStart
from tests.integration.worker import unruly
from tests.integration.worker.kit import until_state, working
from tests.support.engine import handler_damage
from tests.support.waiting import DEADLINE, soon, until

ROOT = Path(__file__).parents[3]
PROGRAM = "tests.integration.worker.programs.spoiling"


@pytest.fixture
def url(pg_url: str) -> str:
    """One database is enough: the engine decides what is shown here."""
    return pg_url


@contextmanager
def program(app: Mutirao, directory: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run the worker in a directory of its own."""
    (directory / "works").mkdir()
    command: list[str] = [sys.executable, "-m", PROGRAM, str(app.url), str(directory / "log")]
    here = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, cwd=directory / "works", env=here) as process:
        try:
            yield process
        finally:
            process.kill()


def enqueue(app: Mutirao, task: str, **args: object) -> int:
    """Enqueue a job of the program; return its id."""
    [id] = app.store.enqueue([NewJob(task=task, args=json.dumps(args))])
    return id


async def finished(app: Mutirao, task: str, **args: object) -> JobRecord:
    """Enqueue a job, and wait until it has succeeded."""
    return await until_state(app, enqueue(app, task, **args), JobState.SUCCEEDED)


async def test_standard_streams_that_were_closed(app: Mutirao, tmp_path: Path) -> None:
    """Children start, with streams that lead nowhere; the log says what has happened."""
    with program(app, tmp_path) as worker:
        await finished(app, "close_descriptors")
        job = await finished(app, "apart")
        assert len(job.attempts) == 1
        assert worker.poll() is None
    assert "were closed, by a handler perhaps" in (tmp_path / "log").read_text()


async def test_a_directory_that_is_there_again(app: Mutirao, tmp_path: Path) -> None:
    """As after a deployment that makes it anew: children start there."""
    with program(app, tmp_path):
        await finished(app, "remove_directory", again=True)
        assert len((await finished(app, "apart")).attempts) == 1


@pytest.mark.parametrize(
    ("before", "task", "args", "why"),
    [
        ([], "remove_directory", {"again": False}, "No such file or directory"),
        (["apart"], "remove_directory", {"again": False}, "No such file or directory"),
        ([], "lose_python", {}, "ended with exit code"),
    ],
    ids=["directory", "directory of an idle child", "python"],
)
async def test_what_cannot_be_mended(
    app: Mutirao, tmp_path: Path, before: list[str], task: str, args: dict[str, Any], why: str
) -> None:
    """The worker ends with a status of its own, and the job is ready for another one, uncounted."""
    with program(app, tmp_path) as worker:
        for each in before:  # its child is kept
            await finished(app, each)
        await finished(app, task, **args)
        id = enqueue(app, "apart")
        assert await asyncio.to_thread(worker.wait, DEADLINE) == 8
    log = (tmp_path / "log").read_text()
    assert "no child process could be started for 0.5 s" in log
    assert why in log
    job = await app.ajob(id)
    assert job.state in (JobState.READY, JobState.SCHEDULED)
    assert job.attempt == 0


def no_thread(thread: threading.Thread) -> None:
    """Be a system that is out of threads."""
    raise RuntimeError("can't start new thread")


def no_process(process: SpawnProcess) -> None:
    """Be a system that is out of processes."""
    raise BlockingIOError("no more processes")


@pytest.mark.parametrize(
    ("kind", "refuse", "message"),
    [
        (SpawnProcess, no_process, "no child process could be started.*no more processes"),
        (threading.Thread, no_thread, "no thread could be started.*can't start new thread"),
    ],
)
async def test_a_system_that_gives_none(
    app: Mutirao, monkeypatch: pytest.MonkeyPatch, kind: Any, refuse: Any, message: str
) -> None:
    """An embedded worker ends, and says so; coroutines ran, and no attempt was counted."""
    monkeypatch.setattr(handler_damage, "LIMIT", 0.2)
    app.register(unruly.pid)

    @app.task
    def plain() -> None:
        pass

    @app.task
    async def quick() -> None:
        pass

    worker = working(app, poll=0.05)
    with pytest.raises(HandlersCannotStart, match=message):  # noqa: PT012 (the end raises it)
        async with worker:
            with monkeypatch.context() as patch:
                patch.setattr(kind, "start", refuse)
                call = unruly.pid.job() if kind is SpawnProcess else plain.job()
                id = app.submit(call).id
                beside = app.submit(quick.job()).id
                await until_state(app, beside, JobState.SUCCEEDED)
                with pytest.raises(HandlersCannotStart):
                    await soon(worker.failed)
                assert not worker.health().alive
    assert (await app.ajob(id)).attempt == 0


async def test_a_system_that_gives_some_again(
    app: Mutirao, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job runs, at its first attempt."""
    app.register(unruly.pid)
    async with working(app, poll=0.05):
        with monkeypatch.context() as patch:
            patch.setattr(SpawnProcess, "start", no_process)
            id = app.submit(unruly.pid.job()).id

            async def refused() -> bool:
                return bool((await app.ajob(id)).attempts)

            await until(refused)
        job = await until_state(app, id, JobState.SUCCEEDED)
    assert [str(each.outcome) for each in job.attempts][-1] == "succeeded"
    assert job.attempt == 1
    assert {str(each.outcome) for each in job.attempts[:-1]} == {"released"}


def test_refusals_long_ago() -> None:
    """Few of them say nothing, and none after a start."""
    now = [0.0]
    starts = handler_damage.RefusedStarts("thread", lambda: now[0])
    starts.refused("full")
    now[0] = 1000.0
    starts.refused("full")
    starts.check()
    starts.given()
    for _ in range(3):
        starts.refused("full")
    starts.check()
    now[0] += handler_damage.LIMIT
    with pytest.raises(HandlersCannotStart, match=r"3 times in a row: full\."):
        starts.check()
    starts.given()
    starts.check()
