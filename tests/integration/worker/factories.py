"""Factories for the tasks in `provided`."""

from __future__ import annotations

from collections.abc import Iterator

from mutirao import Job
from tests.integration.worker.provided import Notes, Session, app


@app.provide
def open_notes(job: Job) -> Iterator[Notes]:
    """Open and close the file of a job."""
    notes = Notes(job.args["path"], job.attempt)
    notes.add("opened")
    yield notes
    notes.add("closed")


@app.provide
def open_session(notes: Notes, other: Notes, note: str = "begun") -> Iterator[Session]:
    """Begin, and roll back or commit."""
    assert notes is other
    notes.add(note)
    try:
        yield Session(notes)
    except ValueError:
        notes.add("rolled-back")
    else:
        notes.add("committed")
