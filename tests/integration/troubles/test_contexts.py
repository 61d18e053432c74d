"""What a handler leaves behind, and what stands beside it: neither reaches the next job."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

import pytest

from mutirao import Job, Mutirao, Retry
from mutirao.log import log
from tests.integration.worker.kit import ended, outcomes, working

pytestmark = pytest.mark.repeats("sqlite", decided="tests/conformance")

tenant: ContextVar[str] = ContextVar("tenant", default="nobody")


@pytest.mark.parametrize("kind", ["coroutine", "thread"])
async def test_each_attempt_has_its_own_context(app: Mutirao, kind: str) -> None:
    """That of the worker's start: what one handler sets the next one does not see."""
    seen: list[str] = []

    @app.task(name="coroutine")
    async def coroutine(job: Job) -> None:
        seen.append(tenant.get())
        tenant.set(f"tenant of {job.id}")
        await asyncio.sleep(0)

    @app.task(name="thread")
    def thread(job: Job) -> None:
        seen.append(tenant.get())
        tenant.set(f"tenant of {job.id}")

    tenant.set("the program")
    async with working(app, concurrency=1):
        for _ in range(4):
            await ended(app, (await app.task_named(kind).using().aenqueue()).id)
    assert seen == ["the program"] * 4


@pytest.fixture
def unfit_logging() -> Iterator[None]:
    """A record factory that has taken our names for its own."""
    before = logging.getLogRecordFactory()

    def factory(*args: Any, **kwargs: Any) -> logging.LogRecord:
        record = before(*args, **kwargs)
        record.task, record.job, record.queue, record.run = "t", 1, "q", 2
        return record

    logging.setLogRecordFactory(factory)
    yield
    logging.setLogRecordFactory(before)


@pytest.mark.usefixtures("unfit_logging")
@pytest.mark.parametrize("outcome", ["succeeds", "fails", "too long"])
async def test_logging_that_raises(
    app: Mutirao, capsys: pytest.CaptureFixture[str], outcome: str
) -> None:
    """The attempt is settled and its slot is free; what was to be said goes to standard error."""
    logging.getLogger("mutirao").setLevel(logging.DEBUG)

    @app.task(timeout=0.2, retry=Retry.never())
    async def step() -> None:
        if outcome == "fails":
            raise ValueError
        if outcome == "too long":
            await asyncio.Event().wait()

    try:
        async with working(app, concurrency=1):
            for _ in range(2):
                job = await ended(app, (await step.aenqueue()).id)
                assert outcomes(job) == ["succeeded" if outcome == "succeeds" else "dead"]
    finally:
        logging.getLogger("mutirao").setLevel(logging.NOTSET)
    assert "(logging failed:\n  Traceback" in capsys.readouterr().err


@pytest.mark.usefixtures("unfit_logging")
def test_nobody_forges_a_line_there(capsys: pytest.CaptureFixture[str]) -> None:
    """What is written to standard error instead has one line for the message."""
    log.error("queue %s", "q\nmutirao: forged \x1b[2J", extra={"task": "t"})
    first, second, *_ = capsys.readouterr().err.splitlines()
    assert (first, second) == ("mutirao: queue q\\nmutirao: forged \\x1b[2J", "(logging failed:")


@pytest.mark.usefixtures("unfit_logging")
async def test_a_stuck_thread_that_cannot_be_told_of(app: Mutirao) -> None:
    """Its job is settled all the same, and the worker stops."""
    go_on = threading.Event()

    @app.task(timeout=0.2, retry=Retry.never())
    def step() -> None:
        go_on.wait(100)

    async with working(app, concurrency=1, grace=0.1):
        job = await ended(app, (await step.aenqueue()).id)
        go_on.set()
    assert outcomes(job) == ["dead"]
