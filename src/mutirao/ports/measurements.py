"""The port to what measures a worker: Prometheus, OpenTelemetry, or a listener of one's own.

A worker reports in batches, as it claims and settles, and not for each job: where nobody listens,
nothing is called and nothing is asked for a job. What is so at a moment (slots, what runs, the age
of the last heartbeat) is not reported, but read from the worker by whoever wants to know it.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from mutirao.model.jobs.states import OutcomeKind

LAST_PORT = 65_535  # of TCP


class EndedAttempt(NamedTuple):
    """An attempt that has ended, and whose outcome is written.

    Parameters:
        outcome: how it ended; never `lost`, which those write who rescue its job.
        attempt: which of its job it was, from 1.
        wait: seconds from when its job was due until it started, by the clocks of the database and
            of this machine; never below 0. A delay that was asked for, and the time between two
            attempts, are no wait.
        seconds: how long it took.
        error_type: the type of the error, if it ended with one.
    """

    queue: str
    task: str
    outcome: OutcomeKind
    attempt: int
    wait: float
    seconds: float
    error_type: str | None


class WorkerLoad(NamedTuple):
    """What a worker has to do at a moment.

    Parameters:
        slots: how many attempts may run at once.
        running: how many run, those among them that have left their slots to others.
        waiting: jobs that it has claimed and that wait for a slot.
        unsettled: attempts that have ended and whose outcomes are not written yet.
        stuck: slots that are lost to handlers which were given up.
        beat_age: seconds since its last heartbeat was written, of several databases the longest;
            None: it has none, as it serves queues of brokers alone, or has not begun.
    """

    slots: int
    running: int
    waiting: int
    unsettled: int
    stuck: int
    beat_age: float | None


class WorkerCondition(NamedTuple):
    """What a probe is told of a worker.

    Parameters:
        live: False: it has failed, or one of its loops hangs; only a new process helps.
        ready: whether it was started, works, and has not been told to stop.
        reason: why it is not one of both, in a sentence; None: it is both.
    """

    live: bool
    ready: bool
    reason: str | None


class MeasuredWorker(Protocol):
    """A worker, as a listener may read it. From any thread."""

    @property
    def served(self) -> tuple[Sequence[str], Sequence[tuple[str, str]]]:
        """The names of the queues, and the (queue, task) that it is known to serve."""
        ...

    def load(self) -> WorkerLoad:
        """Return what it has to do now."""
        ...

    def condition(self) -> WorkerCondition:
        """Return what a probe is to be told."""
        ...


class Measurements(Protocol):
    """A listener. Several may listen; `app.measure(listener)` adds one.

    All methods are called in the event loop of a worker, so none may wait: they add up, and
    something else sends. What one raises is logged once a minute and ends nothing, except for
    `begin`.
    """

    def begin(self, worker: MeasuredWorker) -> None:
        """Take note of a worker that is about to start; called once for each.

        Raises:
            ConfigurationError: it cannot be measured so; then it does not start.
        """
        ...

    def end(self, worker: MeasuredWorker) -> None:
        """Take note that a worker has ended, or could not start."""
        ...

    def claimed(self, jobs: int, seconds: float) -> None:
        """Take note of a claim, which may have found nothing, and of how long it took."""
        ...

    def settled(self, jobs: int, seconds: float) -> None:
        """Take note that the outcomes of so many attempts were written, and how long it took."""
        ...

    def ended(self, attempts: Sequence[EndedAttempt]) -> None:
        """Take note of attempts whose outcomes are written: each comes once."""
        ...

    def fenced(self, jobs: int) -> None:
        """Take note of attempts whose outcomes were dropped: their jobs had been taken away."""
        ...

    def rescued(self, jobs: int) -> None:
        """Take note of jobs of vanished workers that this one has given back."""
        ...
