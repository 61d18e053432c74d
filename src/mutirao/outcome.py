"""How an attempt ended, and how that is told to the store."""

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from mutirao.errors import WrongState
from mutirao.job import Job, Kept, NewJob
from mutirao.states import Fault, OutcomeKind


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an attempt ended. `after` (seconds) or `at` say when a job that stays runs again.

    `fault`: what a `released` attempt was given back for, if that is counted.
    """

    kind: OutcomeKind
    after: float | None = None
    at: datetime | None = None
    error_type: str | None = None
    error: str | None = None
    result: Kept | None = None
    fault: Fault | None = None


SUCCEEDED = Outcome(OutcomeKind.SUCCEEDED)


class Settlement(NamedTuple):
    """An outcome on its way to the store.

    `started_ago` and `finished_ago` are seconds before the write, so that history is told in the
    database's time whatever the worker's clock shows. `follow_up` is enqueued in the same
    transaction, only if the settlement was not stale. `keyed` says that the job has a key, for
    whose next job it may have to make way; `linked` that others may wait for its end: it is a step
    of a graph, or keeps results.
    """

    id: int
    run: int
    outcome: Outcome
    started_ago: float = 0.0
    finished_ago: float = 0.0
    follow_up: NewJob | None = None
    keyed: bool = False
    linked: bool = False


def completion(job: Job, started_ago: float) -> Settlement:
    """Return the success of a job inside its handler. Raises WrongState without its result."""
    if job._keep is not None and job._result is None:
        raise WrongState(
            f"the result of job {job.id} ({job.task}) is kept, and its transaction completes it"
            " before the handler returns; give it inside: job.returns(…)"
        )
    kept, linked = job._result, job._keep is not None or job._claim.linked
    done = Outcome(OutcomeKind.SUCCEEDED, result=kept) if kept else SUCCEEDED
    keyed = job.key is not None
    return Settlement(job.id, job.run, done, started_ago, keyed=keyed, linked=linked)
