"""A worker that is a program of its own, with all that Sentry's SDK does by itself."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE
from pathlib import Path
from typing import Any

from mutirao import Mutirao, NewJob
from tests.support.waiting import until

PROGRAM = """
import json
import os

import sentry_sdk
from sentry_sdk.transport import Transport

from mutirao import Mutirao
from mutirao.telemetry.sentry import Sentry


class ToFile(Transport):
    def capture_envelope(self, envelope):
        for item in envelope.items:
            line = {{"type": item.type, "pid": os.getpid(), "body": item.payload.json}}
            with open("sent", "a") as file:
                file.write(json.dumps(line) + "\\n")


sentry_sdk.init(
    "http://public@127.0.0.1:9/1",
    transport=ToFile(),
    traces_sample_rate=1.0,
    auto_enabling_integrations=False,  # which import each framework that is installed
)
app = Mutirao({url!r})
Sentry().install(app)


@app.task(process=True, max_attempts=1)
def shrink(path: str) -> None:
    sentry_sdk.capture_message("about to shrink " + path)
    with sentry_sdk.start_span(op="file", name="read"):
        raise ValueError("no picture in " + path)
"""
TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


async def test_a_child_process(lite_url: str, tmp_path: Path) -> None:
    """What its handler tells is of the attempt's trace; the death is one event, of the worker."""
    (tmp_path / "shop.py").write_text(PROGRAM.format(url=lite_url))
    where = {**os.environ, "PYTHONPATH": str(tmp_path)}
    kept = {"trace": {"sentry-trace": f"{TRACE}-{SPAN}-1"}}
    args = '{"path": "kite.png"}'
    worker = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "mutirao", "worker", "shop:app"),
        cwd=tmp_path, env=where, stderr=PIPE,
    )  # fmt: skip
    app = Mutirao(lite_url)
    await app.asubmit(NewJob(task="shrink", args=args, metadata=kept))
    try:
        await until(lambda: app.ajobs(state="dead"))
        worker.send_signal(signal.SIGTERM)
        _, said = await worker.communicate()
        assert worker.returncode == 0
        assert b"Sentry failed" not in said
    finally:
        await app.aclose()
        if worker.returncode is None:
            worker.kill()
            await worker.communicate()
    found = [json.loads(line) for line in (tmp_path / "sent").read_text().splitlines()]
    [done] = [_trace(each) for each in _of("transaction", found, worker.pid)]
    [death] = _of("event", found, worker.pid)
    [message, inside] = [each["body"] for each in found if each["pid"] != worker.pid]
    assert death["exception"]["values"][0]["value"] == "no picture in kite.png"
    assert (message["message"], message["tags"]["task"]) == ("about to shrink kite.png", "shrink")
    assert [each["op"] for each in inside["spans"]] == ["queue.process", "file"]
    assert inside["contexts"]["trace"]["status"] == "internal_error"
    traces = [done, *map(_trace, (death, message, inside))]
    assert {each["trace_id"] for each in traces} == {TRACE}
    assert done["parent_span_id"] == SPAN


def _of(type: str, found: list[dict[str, Any]], pid: int) -> list[dict[str, Any]]:
    return [each["body"] for each in found if (each["type"], each["pid"]) == (type, pid)]


def _trace(body: dict[str, Any]) -> dict[str, Any]:
    trace: dict[str, Any] = body["contexts"]["trace"]
    return trace
