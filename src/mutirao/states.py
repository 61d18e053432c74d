"""The words for how jobs stand and how attempts end."""

from enum import StrEnum


class JobState(StrEnum):
    """The state of a job as people see it; told from the tables and the clock, never stored."""

    SCHEDULED = "scheduled"
    READY = "ready"
    BLOCKED = "blocked"  # waits for other jobs
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    DEAD = "dead"
    CANCELLED = "cancelled"


class OutcomeKind(StrEnum):
    """How an attempt ended; the word stored in `mutirao_attempt.outcome`."""

    SUCCEEDED = "succeeded"
    RETRIED = "retried"  # failed, and waits for its next attempt
    SNOOZED = "snoozed"  # asked to be called later; not counted as an attempt
    DEAD = "dead"
    CANCELLED = "cancelled"
    LOST = "lost"  # its worker vanished
    RELEASED = "released"  # interrupted by a shutdown; not counted as an attempt

    final: bool  # whether the job leaves the live table with this outcome

    def __init__(self, word: str) -> None:
        # An attribute: every job is asked for it three times on its way, and a property is a call.
        self.final = word in ("succeeded", "dead", "cancelled")


FINAL_OUTCOMES = frozenset(kind for kind in OutcomeKind if kind.final)
UNCOUNTED_OUTCOMES = frozenset({OutcomeKind.SNOOZED, OutcomeKind.RELEASED})


class Fault(StrEnum):
    """Why an attempt that costs none was given back, where that may happen so often only."""

    CONNECTION = "connection"  # it lost its connection to the database
    WORKER = "worker"  # its worker failed
