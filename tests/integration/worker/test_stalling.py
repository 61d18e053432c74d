"""The watchdog: attempts that are silent are cut, and work that runs elsewhere is asked for."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from mutirao import Dead, Job, JobState, Mutirao, Retry, Work
from mutirao.errors import InvalidTask, WorkFailed
from mutirao.testing import inline
from tests.integration.worker import children
from tests.integration.worker.kit import ended, outcomes, working

AGAIN = Retry.fixed(2, interval=0)


@pytest.fixture
def url(lite_url: str) -> str:
    """One database is enough: the engine decides what is shown here."""
    return lite_url


async def test_a_silent_coroutine_is_cut_and_retried(app: Mutirao) -> None:
    """One that tells how far it is goes on, for longer than it may be silent."""
    received: list[int] = []

    @app.task(retry=AGAIN, stall_timeout=0.5)
    async def encode(job: Job) -> None:
        for received[job.attempt - 1 :] in ([step] for step in range(5)):
            job.progress(received[-1]) if received[-1] % 2 else job.alive()
            await asyncio.sleep(0.15)
        if job.attempt == 1:
            await asyncio.Event().wait()

    async with working(app):
        job = await ended(app, encode.enqueue().id)
    assert outcomes(job) == ["retried", "succeeded"]
    assert received == [4, 4]
    assert job.attempts[0].error_type == "AttemptStalled"
    assert "no sign of life for its stall_timeout of 0.5 s" in (job.attempts[0].error or "")


async def test_a_silent_thread_is_fenced(app: Mutirao) -> None:
    """Its job goes on elsewhere, and it learns that it shall end."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    @app.task(retry=AGAIN, stall_timeout=0.5)  # enough for the second attempt, on a busy machine
    def hang(job: Job) -> None:
        while job.attempt == 1 and not job.cancelled:
            pass
        if job.attempt == 1:
            loop.call_soon_threadsafe(stop.set)

    async with working(app):
        job = await ended(app, hang.enqueue().id)
        assert outcomes(job) == ["retried", "succeeded"]
        await stop.wait()


async def test_a_silent_child_is_killed(app: Mutirao, tmp_path: Path) -> None:
    """Its signs of life come through: it is cut a while after the last one."""
    app.register(children.mumble)
    async with working(app):
        [id] = await app.aenqueue_many([children.mumble.job(str(tmp_path / "said"))])
        job = await ended(app, id)
    assert outcomes(job) == ["retried", "succeeded"]
    assert job.attempts[0].error_type == "AttemptStalled"
    assert (tmp_path / "said").read_text() == "1" * children.SIGNS


@pytest.mark.parametrize("plain", [True, False])
async def test_a_probe_is_asked_until_work_is_done(app: Mutirao, plain: bool) -> None:
    """Also when it found nothing out; that it runs is a sign of life."""
    answers: Iterator[object] = iter(["running", OSError("not now"), "sideways", *["running"] * 9])
    asked: list[tuple[int, str]] = []

    def encoding(job: Job, started: str) -> Work | str:
        asked.append((job.attempt, started))
        answer = next(answers, Work.DONE)
        if isinstance(answer, Exception):
            raise answer
        assert isinstance(answer, str)
        return answer

    async def encoding_seen_from_the_loop(job: Job, started: str) -> Work | str:
        return encoding(job, started)

    @app.task(stall_timeout=30, keep_result=True)
    def encode(path: str) -> str:
        return f"process of {path}"

    encode.probe(every=0.001)(encoding if plain else encoding_seen_from_the_loop)
    async with working(app):
        handle = encode.enqueue("a.mov")
        assert await handle.aresult(timeout=30) == "process of a.mov"
    assert asked == [(1, "process of a.mov")] * 13


async def test_what_a_probe_finds_ends_the_attempt(
    app: Mutirao, caplog: pytest.LogCaptureFixture
) -> None:
    """Failed work is retried, with a signal it ends as that says, and silence is cut."""
    caplog.set_level(logging.CRITICAL, "mutirao")

    @app.task(retry=Retry.fixed(3, interval=0), stall_timeout=1)  # enough to ask the probe once
    async def encode(job: Job) -> int:
        return job.attempt

    @encode.probe(every=0.01)
    def encoding(job: Job, started: int) -> Work:
        if started == 2:
            raise OSError("nobody knows")
        if started == 3:
            raise Dead("no such codec")
        return Work.FAILED

    async with working(app):
        job = await ended(app, encode.enqueue().id)
    assert [each.error_type for each in job.attempts] == ["WorkFailed", "AttemptStalled", "Dead"]
    assert job.state is JobState.DEAD


def test_inline(app: Mutirao) -> None:
    """The probe is asked there, too."""

    @app.task
    def encode(path: str) -> str:
        return path

    @encode.probe
    def encoding(job: Job, started: str) -> str:
        return "done" if started == "a.mov" else "failed"

    with inline(app):
        encode.enqueue("a.mov")
        with pytest.raises(WorkFailed, match=r"b\.mov"):
            encode.enqueue("b.mov")


def test_what_is_refused(app: Mutirao) -> None:
    """A second probe, one that cannot be called so, one of a child process, silence of no time."""

    @app.task
    def encode() -> None: ...

    @app.task(process=True)
    def render() -> None: ...

    def fit(job: Job, started: object) -> str:
        return "done"

    with pytest.raises(InvalidTask, match="must take the Job and what the handler returned"):
        encode.probe(lambda job: "done")
    with pytest.raises(InvalidTask, match="more than 0"):
        encode.probe(every=0)(fit)
    encode.probe(fit)
    with pytest.raises(InvalidTask, match="has a probe already"):
        encode.probe(fit)
    with pytest.raises(InvalidTask, match="process=True"):
        render.probe(fit)
    with pytest.raises(InvalidTask, match="stall_timeout is 0"):
        app.task(stall_timeout=0)(fit)
