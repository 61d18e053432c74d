"""The outcome of an attempt, and its form for the store."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from mutirao.errors import WrongState
from mutirao.model.jobs.job import Attempt, Job, KeptResult, NewJob
from mutirao.model.jobs.states import Fault, OutcomeKind


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of an attempt. `after` (seconds) or `at` say when a waiting job runs again.

    `fault`: why a `released` attempt was given up, if that is counted. `stops`: whether the
    schedule that made the job is to be paused. `apart`: whether a retried job leaves the lane in
    which it took turns.
    """

    kind: OutcomeKind
    after: float | None = None
    at: datetime | None = None
    error_type: str | None = None
    error: str | None = None
    result: KeptResult | None = None
    fault: Fault | None = None
    stops: bool = False
    apart: bool = False


SUCCEEDED = Outcome(OutcomeKind.SUCCEEDED)


class Settlement(NamedTuple):
    """An outcome to be written by the store.

    `started_ago` and `finished_ago` are seconds before the write, so that history is in the
    database's time whatever the worker's clock shows. `follow_up` is enqueued in the same
    transaction, unless the settlement is stale. `keyed` means that the job has a key, for which
    another job may wait; `linked` means that others may wait for its end, because it is a step of a
    graph or keeps its result.
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
    """Return the settlement of a job that succeeds in its own transaction.

    Raises:
        WrongState: the job's result is kept, and the handler has not set it.
    """
    if job._keep is not None and job._result is None:
        raise WrongState(
            f"the result of job {job.id} ({job.task}) is kept, and its transaction completes it"
            " before the handler returns; give it inside: job.returns(…)"
        )
    kept, linked = job._result, job._keep is not None or job._claim.linked
    done = Outcome(OutcomeKind.SUCCEEDED, result=kept) if kept else SUCCEEDED
    keyed = job.key is not None
    return Settlement(job.id, job.run, done, started_ago, keyed=keyed, linked=linked)


class Completion(NamedTuple):
    """A job that succeeds in a transaction of many, and the attempt that is informed of it."""

    settlement: Settlement
    attempt: Attempt


def lending(job: Job) -> Callable[[], None]:
    """Return a function that lends the slot of a job that only waits; may be called at any time."""
    return (lambda: None) if job._attempt is None else job._attempt.lend_slot


def error_of(job: Job) -> BaseException | None:
    """Return the error that has ended a job's attempt, for middleware, after its yield.

    None if it is not available: nothing was raised, or a child process raised it. Do not keep it:
    its traceback refers to all objects of the handler.
    """
    return None if job._attempt is None else job._attempt.error()


def completing(job: Job) -> Completion | None:
    """Return the completion of a job, for a batch with others.

    None: another job waits for its end, or no worker runs it.
    """
    if job._attempt is None:
        return None
    done = completion(job, job._attempt.started_ago())
    return None if done.keyed or done.linked else Completion(done, job._attempt)
