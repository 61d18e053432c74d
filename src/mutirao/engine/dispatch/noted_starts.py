"""Records the start of a job that was lost before, so that another loss after it counts.

A vanished worker may have held the job without starting it: such a loss does not count. See
`mutirao.model.jobs.lost_workers`.
"""

from collections.abc import Awaitable, Callable, Coroutine, Iterable
from functools import partial
from typing import Any

from mutirao.engine.calls import outcomes
from mutirao.engine.calls.attempt import Running
from mutirao.engine.worker_row import WorkerRow
from mutirao.errors import StoreUnavailable
from mutirao.model.jobs import lost_workers
from mutirao.model.jobs.claim import Claim
from mutirao.model.jobs.outcome import Outcome

# Notes a start in the store; returns False if others may have the job now.
NoteStart = Callable[[Claim], Awaitable[bool]]
Attempt = Callable[[Running], Coroutine[Any, Any, Outcome]]


def counted(claims: Iterable[Claim]) -> list[Claim]:
    """Return claims with the number of workers that were lost after they had begun the job."""
    return [_counted(claim) if claim.lost else claim for claim in claims]


def noting(row: WorkerRow) -> NoteStart:
    """Return a function that records the starts of a worker's jobs."""

    async def note_start(claim: Claim) -> bool:
        counts = {"lost": lost_workers.noted(claim.lost), "attempt": claim.attempt}
        return await row.store.note_start(row.id, claim.id, claim.run, **counts)

    return note_start


def after_note(note_start: NoteStart, attempt: Attempt) -> Attempt:
    """Return an attempt that records its start first."""
    return partial(_noted, note_start, attempt)


async def _noted(note_start: NoteStart, attempt: Attempt, running: Running) -> Outcome:
    try:
        ours = await note_start(running.claim)
    except StoreUnavailable as error:
        return outcomes.cut_off(error)
    if not ours:
        return outcomes.LOST
    running.begin_now()
    return await attempt(running)


def _counted(claim: Claim) -> Claim:
    workers, unbegun = lost_workers.read(claim.lost)
    return claim._replace(lost=workers, attempt=max(1, claim.attempt - unbegun))
