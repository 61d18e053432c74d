"""The port to what measures a worker: Prometheus, OpenTelemetry, or an own listener.

A worker reports in batches, as it claims and settles, and not for each job: without listeners,
nothing is called and nothing is checked per job. Momentary values (slots, running attempts, the age
of the last heartbeat) are not reported, but read from the worker when needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from mutirao.model.jobs.states import OutcomeKind

LAST_PORT = 65_535  # of TCP


class EndedAttempt(NamedTuple):
    """An attempt that has ended, and whose outcome is written.

    Parameters:
        outcome: how it ended; never `lost`, which is written by the worker that rescues the job.
        attempt: the number of the attempt, from 1.
        wait: seconds from when its job was due until it started, by the clocks of the database and
            of this machine; never below 0. A requested delay, and the time between two attempts,
            are no wait.
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
    """The load of a worker at a moment.

    Parameters:
        slots: how many attempts may run at once.
        running: how many run, including those that have lent their slots to others.
        waiting: jobs that it has claimed and that wait for a slot.
        unsettled: attempts that have ended and whose outcomes are not written yet.
        stuck: slots that are lost to abandoned handlers.
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
    """The report of a probe about a worker.

    Parameters:
        live: False: it has failed, or one of its loops hangs; only a new process helps.
        ready: whether it was started, works, and has not been asked to stop.
        reason: why it is not both, in a sentence; None: it is both.
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
        """Return its current load."""
        ...

    def condition(self) -> WorkerCondition:
        """Return the report of a probe."""
        ...


class Measurements(Protocol):
    """A listener. Several may listen; `app.measure(listener)` adds one.

    All methods are called in the event loop of a worker, so none may wait: they add up, and another
    thread or task sends. Errors are logged once a minute and end nothing, except those of `begin`.
    """

    def begin(self, worker: MeasuredWorker) -> None:
        """Receive a worker that is about to start; called once for each.

        Raises:
            ConfigurationError: it cannot be measured in this way; then it does not start.
        """
        ...

    def end(self, worker: MeasuredWorker) -> None:
        """Receive that a worker has ended, or could not start."""
        ...

    def claimed(self, jobs: int, seconds: float) -> None:
        """Receive a claim, which may have found nothing, and its duration."""
        ...

    def settled(self, jobs: int, seconds: float) -> None:
        """Receive that the outcomes of this many attempts were written, and the duration."""
        ...

    def ended(self, attempts: Sequence[EndedAttempt]) -> None:
        """Receive attempts whose outcomes are written: each comes once."""
        ...

    def fenced(self, jobs: int) -> None:
        """Receive attempts whose outcomes were dropped: their jobs had been taken away."""
        ...

    def rescued(self, jobs: int) -> None:
        """Receive jobs of vanished workers that this one has given back."""
        ...
