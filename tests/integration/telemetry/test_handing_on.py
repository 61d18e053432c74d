"""The trace of an attempt is there for all that runs in it, whatever makes traces."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from mutirao import DeadJob, Job, Mutirao, Retry
from mutirao.model.jobs.outcome import error_of
from mutirao.model.trace import hand_trace, trace_headers, trace_ids
from mutirao.tasks.around.middleware import AttemptSteps
from tests.integration.telemetry import children
from tests.integration.worker.kit import ended, working
from tests.support.waiting import until

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
ENQUEUED = f"00-{TRACE}-00f067aa0ba902b7-01"


@pytest.fixture
def url(lite_url: str) -> str:
    """One database is enough: contexts are not the databases'."""
    return lite_url


def traced(job: Job) -> AttemptSteps:
    """Give each attempt a span, named after the job."""
    hand_trace({"traceparent": f"00-{TRACE}-{job.id:016x}-01"})
    yield


async def test_where_handlers_run(app: Mutirao, tmp_path: Path) -> None:
    """In the loop, in a thread, in a child process, and where the engine logs the end."""
    seen: dict[str, tuple[str, str] | None] = {}
    logged: list[tuple[str, str] | None] = []
    app.around_attempt(traced)

    def log_filter(record: logging.LogRecord) -> bool:
        if getattr(record, "outcome", None) == "succeeded":
            logged.append(trace_ids())
        return True

    app.register(children.write_trace)
    app.register(children.in_thread)

    @app.task
    async def coroutine() -> None:
        seen["coroutine"] = trace_ids()

    @app.task
    def plain() -> None:
        seen["plain"] = trace_ids()

    ids = [coroutine.enqueue().id, plain.enqueue().id]
    path = tmp_path / "trace"
    child = children.write_trace.job(str(path))
    apart = app.submit(child).id
    beside = app.submit(children.in_thread.job(str(tmp_path / "none"))).id
    logger = logging.getLogger("mutirao")
    logger.addFilter(log_filter)
    try:
        logger.setLevel(logging.INFO)
        async with working(app):
            for each in (*ids, apart, beside):
                await ended(app, each)
    finally:
        logger.removeFilter(log_filter)
    assert {each for each in logged if each} == {
        (TRACE, f"{id:016x}") for id in (*ids, apart, beside)
    }
    assert seen["coroutine"] == (TRACE, f"{ids[0]:016x}")
    assert seen["plain"] == (TRACE, f"{ids[1]:016x}")
    assert path.read_text() == f"{TRACE} {apart:016x}"
    # `around_child` stands around children only.
    assert [each for each in os.listdir(tmp_path) if "hook" in each] == ["trace.hook"]
    assert trace_headers() == {}
    assert trace_ids() is None


async def test_the_handler_of_a_death(app: Mutirao) -> None:
    """Its job goes on with the trace of the attempt that died; without one, with the job's."""
    seen: list[str | None] = []

    @app.task(max_attempts=1)
    def fail() -> None:
        raise ValueError("no")

    @fail.on_dead
    def told(job: Job, dead: DeadJob) -> None:
        seen.append(job.traceparent)

    fail.using(traceparent=ENQUEUED).enqueue()
    async with working(app):
        await until(lambda: len(seen) == 1)
    app.around_attempt(traced)
    id = fail.using(traceparent=ENQUEUED).enqueue().id
    async with working(app):
        await until(lambda: len(seen) == 2)
    assert seen == [ENQUEUED, f"00-{TRACE}-{id:016x}-01"]


async def test_middleware_finds_the_error(app: Mutirao) -> None:
    """Of each attempt that was ended by one, until the attempt is over."""
    found: list[BaseException | None] = []
    jobs: list[Job] = []

    @app.around_attempt
    def finding(job: Job) -> AttemptSteps:
        yield
        jobs.append(job)
        found.append(error_of(job))

    errors = [ValueError("first"), ValueError("last"), None]

    @app.task(retry=Retry.fixed(2, interval=0))
    async def fail() -> None:
        if (error := errors.pop(0)) is not None:
            raise error

    raised = list(errors)
    async with working(app):
        for job in (fail.job(), fail.job()):
            await ended(app, app.submit(job).id)
    assert found == raised
    assert [error_of(job) for job in jobs] == [None] * 3
