"""Which trace and which worker the records of an attempt name."""

from __future__ import annotations

import logging
from contextvars import copy_context

import pytest

from mutirao import Job, Mutirao
from mutirao.log import fields, name_job
from mutirao.model.trace import TRACEPARENT, hand_trace
from mutirao.telemetry.logs import JobFields
from tests.integration.worker.kit import ended, working
from tests.unit.test_job import CLAIM

pytestmark = pytest.mark.repeats("postgresql", decided="tests/conformance")

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{SPAN}-01"


async def lines_of(app: Mutirao, caplog: pytest.LogCaptureFixture, traceparent: str) -> list[str]:
    """Run a job; return the trace that its lines name, those without one as an empty text."""

    @app.task
    async def send() -> None:
        logging.getLogger("shop").info("sending")

    caplog.handler.addFilter(JobFields())
    with caplog.at_level(logging.INFO):
        async with working(app):
            await ended(app, send.using(traceparent=traceparent).enqueue().id)
    mine = [each for each in caplog.records if hasattr(each, "job")]
    assert len(mine) == 2
    assert [getattr(each, "worker", None) for each in mine] == [1, 1]
    return [getattr(each, "trace", "") for each in mine]


async def test_the_trace_of_the_job(app: Mutirao, caplog: pytest.LogCaptureFixture) -> None:
    """Without a span, lines name the trace in which the job was enqueued."""
    assert await lines_of(app, caplog, PARENT) == [TRACE, TRACE]


@pytest.mark.parametrize("unfit", ["", "00", "00-x-y-z", f"00-{'ä' * 32}-{SPAN}-01"])
def test_a_trace_that_is_none(unfit: str) -> None:
    """What somebody else has written into a row or a message is no trace of the log."""
    copy_context().run(name_job, CLAIM._replace(traceparent=unfit))
    assert "trace" not in fields(CLAIM._replace(traceparent=unfit))
    assert fields(CLAIM._replace(traceparent=PARENT))["trace"] == TRACE
    assert fields() == {}


async def test_the_span_of_the_attempt(app: Mutirao, caplog: pytest.LogCaptureFixture) -> None:
    """A middleware tells it: the handler's lines name it, and that of the attempt's end."""
    mine = "0af7651916cd43dd8448eb211c80319c"

    @app.around_attempt
    async def traced(job: Job):  # type: ignore[no-untyped-def]
        hand_trace({TRACEPARENT: f"00-{mine}-{SPAN}-01"})
        yield

    assert await lines_of(app, caplog, PARENT) == [mine, mine]
    assert {getattr(each, "span", SPAN) for each in caplog.records} == {SPAN}
