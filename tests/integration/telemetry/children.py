"""Tasks and a middleware that child processes can import; their application has no database."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from mutirao import Job, Mutirao
from mutirao.model.trace import trace_ids

app = Mutirao("sqlite:///never-opened.db")


@app.around_child
def note(job: Job) -> Iterator[None]:
    """Leave in a file that it stood around the handler, in a child or not."""
    if "path" in job.args:
        Path(job.args["path"] + ".hook").write_text("around")
    yield


@app.task
def in_thread(path: str) -> None:
    """Do nothing, where no child is."""


@app.task(process=True)
def write_trace(path: str) -> None:
    """Leave the ids of the attempt's trace in a file."""
    Path(path).write_text(" ".join(trace_ids() or ()))


@app.task(process=True, max_attempts=1)
def fail_apart(job: Job) -> None:
    """Fail, once and for all."""
    secret = f"local of {job.id}"
    raise ValueError("no such " + secret[:5])
