"""A worker that is a program of its own sends its spans to a collector, as users set it up."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from mutirao import Mutirao
from tests.integration.telemetry.collector import collecting
from tests.support.waiting import until

PROGRAM = """
import sys

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from mutirao import Mutirao
from mutirao.telemetry.opentelemetry import OpenTelemetry

provider = TracerProvider(resource=Resource({{"service.name": "shop"}}))
exporter = OTLPSpanExporter(endpoint={collector!r})
provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=50))
trace.set_tracer_provider(provider)

app = Mutirao({url!r})
OpenTelemetry().install(app)


@app.task(process=True)
def shrink(path: str) -> None:
    with trace.get_tracer("shop").start_as_current_span("read the picture"):
        send.enqueue(to=path)


@app.task(queue="mail", max_attempts=1)
async def send(to: str) -> None:
    raise ValueError("no address " + to)


if __name__ == "__main__":
    shrink.enqueue("kite.png")
"""


def place(span: Span) -> tuple[bytes, bytes]:
    """Return the ids of a span and of its trace."""
    return span.trace_id, span.span_id


async def test_from_a_program_to_its_workers(lite_url: str, tmp_path: Path) -> None:
    """One trace for each job, linked; also of handlers in child processes, to the last span."""
    with collecting() as collector:
        program = PROGRAM.format(collector=collector.url, url=lite_url)
        (tmp_path / "shop.py").write_text(program)
        where = {**os.environ, "PYTHONPATH": str(tmp_path)}
        caller = await asyncio.create_subprocess_exec(
            sys.executable, "shop.py", cwd=tmp_path, env=where
        )
        assert await caller.wait() == 0
        worker = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "mutirao", "worker", "shop:app"),
            cwd=tmp_path, env=where, stderr=PIPE,
        )  # fmt: skip
        try:
            await until(lambda: collector.named("enqueue mail"))
            app = Mutirao(lite_url)
            await until(lambda: _dead(app))
            await app.aclose()
            worker.send_signal(signal.SIGTERM)
            await worker.communicate()
            assert worker.returncode == 0
        finally:
            if worker.returncode is None:
                worker.kill()
                await worker.communicate()
    assert collector.services == {"shop"}
    [asked], [shrink] = collector.named("enqueue default"), collector.named("process default")
    [read] = collector.named("read the picture")
    [again], [send] = collector.named("enqueue mail"), collector.named("process mail")
    assert [(each.trace_id, each.span_id) for each in shrink.links] == [place(asked)]
    assert (shrink.trace_id, shrink.parent_span_id) != (asked.trace_id, asked.span_id)
    assert (read.trace_id, read.parent_span_id) == place(shrink)
    assert (again.trace_id, again.parent_span_id) == place(read)
    assert [(each.trace_id, each.span_id) for each in send.links] == [place(again)]
    kinds = [each.kind for each in (asked, shrink, again, send)]
    assert kinds == [Span.SPAN_KIND_PRODUCER, Span.SPAN_KIND_CONSUMER] * 2
    assert send.status.code == Status.STATUS_CODE_ERROR
    [event] = send.events
    told = {each.key: each.value.string_value for each in event.attributes}
    assert told["exception.message"] == "no address kite.png"
    assert shrink.status.code == Status.STATUS_CODE_UNSET


async def _dead(app: Mutirao) -> bool:
    return [job.task for job in await app.ajobs(state="dead")] == ["send"]
