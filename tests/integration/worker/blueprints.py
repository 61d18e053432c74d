"""A blueprint that child processes import, without an application."""

from __future__ import annotations

from mutirao import PROVIDED, Job, Retry, Tasks
from tests.integration.worker.provided import Session

tasks = Tasks()


@tasks.task(process=True, retry=Retry.fixed(2, interval=0))
def in_process(job: Job, path: str, *, session: Session = PROVIDED) -> None:
    """Say which timeout applies, and fail once."""
    session.notes.add(f"handler with {job.timeout}")
    if job.attempt == 1:
        raise ValueError


@tasks.task
def in_thread(job: Job, path: str, session: Session) -> None:
    """Say the same in a thread."""
    session.notes.add(f"handler with {job.timeout}")


@tasks.task(process=True, retry=Retry.never())
def enqueueing(path: str) -> None:
    """Enqueue another one, in a process that knows no application."""
    in_process.enqueue(path)
