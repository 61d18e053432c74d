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

from mutirao import Mutirao
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


if __name__ == "__main__":
    with sentry_sdk.start_transaction(name="upload"):
        shrink.enqueue("kite.png")
"""


async def test_a_child_process(lite_url: str, tmp_path: Path) -> None:
    """What its handler tells is of the attempt's trace; the death is one event, of the worker."""
    (tmp_path / "shop.py").write_text(PROGRAM.format(url=lite_url))
    where = {**os.environ, "PYTHONPATH": str(tmp_path)}
    caller = await asyncio.create_subprocess_exec(
        sys.executable, "shop.py", cwd=tmp_path, env=where
    )
    assert await caller.wait() == 0
    worker = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "mutirao", "worker", "shop:app"),
        cwd=tmp_path, env=where, stderr=PIPE,
    )  # fmt: skip
    app = Mutirao(lite_url)
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
    [upload] = [_trace(each) for each in _of("transaction", found, caller.pid)]
    [done] = [_trace(each) for each in _of("transaction", found, worker.pid)]
    [death] = _of("event", found, worker.pid)
    [message, inside] = [
        each["body"] for each in found if each["pid"] not in (caller.pid, worker.pid)
    ]
    assert death["exception"]["values"][0]["value"] == "no picture in kite.png"
    assert (message["message"], message["tags"]["task"]) == ("about to shrink kite.png", "shrink")
    assert [each["op"] for each in inside["spans"]] == ["queue.process", "file"]
    assert inside["contexts"]["trace"]["status"] == "internal_error"
    traces = [upload, done, *map(_trace, (death, message, inside))]
    assert {each["trace_id"] for each in traces} == {upload["trace_id"]}


def _of(type: str, found: list[dict[str, Any]], pid: int) -> list[dict[str, Any]]:
    return [each["body"] for each in found if (each["type"], each["pid"]) == (type, pid)]


def _trace(body: dict[str, Any]) -> dict[str, Any]:
    trace: dict[str, Any] = body["contexts"]["trace"]
    return trace
