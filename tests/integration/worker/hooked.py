"""Tasks with hooks around them, which child processes must be able to import.

Their application has no database of its own: tests register its tasks with theirs.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

from mutirao import Job, Mutirao, Retry

app = Mutirao("sqlite:///never-opened.db")


def note(path: str, what: str) -> None:
    """Add a line: who says what."""
    with Path(path).open("a") as file:
        file.write(f"{os.getpid()} {threading.get_ident()} {what}\n")


@app.around_handler
def outer(job: Job) -> Iterator[None]:
    """Say how the handler ended, and swallow its error."""
    note(job.args["path"], f"outer {job.id} {job.attempt}")
    try:
        yield
    except ValueError as error:
        note(job.args["path"], f"outer saw {error}")
    else:
        note(job.args["path"], "outer saw no error")


@app.around_handler
def inner(job: Job) -> Iterator[None]:
    """Fail before or after the handler, as the job says."""
    note(job.args["path"], "inner")
    if job.args["fails"] == "before":
        raise ValueError("before")
    yield
    if job.args["fails"] == "after":
        raise ValueError("after")


@app.task(process=True, retry=Retry.never())
def in_process(path: str, fails: str = "never") -> None:
    """Say that it runs, and fail if it is told to."""
    note(path, "handler")
    if fails == "itself":
        raise ValueError("itself")


@app.task(retry=Retry.never())
def in_thread(path: str, fails: str = "never") -> None:
    """Do the same in a thread."""
    in_process(path, fails)
