"""Records when jobs expire, for housekeeping and for people.

What counts is in the metadata of the jobs. So others cost nothing, but a look at theirs.
"""

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from itertools import chain

import msgspec

from mutirao.model.jobs.expiry import EXPIRES_KEY, expiry_in
from mutirao.model.jobs.job import NewJob
from mutirao.model.keys.uniqueness import Placed
from mutirao.sql.drivers.steps import Execute, Steps
from mutirao.sql.schema.types import to_micros

Enqueueing = Callable[[Iterable[NewJob]], Steps]


def noting(
    enqueue: Enqueueing, atomically: Callable[[Steps], Steps], note: str, jobs: Iterable[NewJob]
) -> Steps:
    """Write jobs, and until when those of them are wanted that say so.

    Parameters:
        atomically: does all of some steps, or none. Jobs that come from elsewhere while they are
            written are known by the first of them: if others say so, and there is no transaction,
            a crash may leave them without a note; they do not start late for that.
        note: the statement, with a JSON array as its parameter.
    """
    if isinstance(jobs, list | tuple):
        rest, ends = iter(jobs), any(EXPIRES_KEY in job.metadata for job in jobs)
        if not ends:
            return (yield from enqueue(jobs))
    else:
        rest = iter(jobs)
        first = next(rest, None)
        if first is None:
            return (yield from enqueue(()))
        rest, ends = chain((first,), rest), EXPIRES_KEY in first.metadata
    steps = _noting(enqueue, note, rest)
    return (yield from atomically(steps) if ends else steps)


def _noting(enqueue: Enqueueing, note: str, jobs: Iterator[NewJob]) -> Steps:
    found: list[tuple[int, datetime]] = []
    ids = yield from enqueue(_noted(jobs, found))
    rows = [
        {"job": int(ids[n]), "at": until.isoformat(), "micros": to_micros(until)}
        for n, until in found
        if _is_new(ids[n])
    ]
    if rows:
        yield Execute(note, (msgspec.json.encode(rows).decode(),), answers=False)
    return ids


def _is_new(id: int) -> bool:
    """Return whether a job was written, and has not come to one that waits."""
    return not isinstance(id, Placed) or (id.written and id.how != "merged")


def _noted(jobs: Iterator[NewJob], found: list[tuple[int, datetime]]) -> Iterator[NewJob]:
    for n, job in enumerate(jobs):
        if EXPIRES_KEY in job.metadata and (until := _until(job)) is not None:
            found.append((n, until))
        yield job


def _until(job: NewJob) -> datetime | None:
    """Return the moment at which a job expires. If it is unreadable, its worker reports that."""
    try:
        return None if job.redrive_of is not None else expiry_in(job.metadata)
    except ValueError:
        return None
