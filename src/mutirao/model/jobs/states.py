"""The states of jobs and the outcomes of attempts."""

from enum import StrEnum


class JobState(StrEnum):
    """The state of a job as people see it; derived from the tables and the clock, never stored."""

    SCHEDULED = "scheduled"
    READY = "ready"
    BLOCKED = "blocked"  # waits for other jobs or for a limit
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    DEAD = "dead"
    CANCELLED = "cancelled"


FINAL_STATES = frozenset({JobState.SUCCEEDED, JobState.DEAD, JobState.CANCELLED})


class OutcomeKind(StrEnum):
    """The kind of an outcome; the word stored in `mutirao_attempt.outcome`."""

    SUCCEEDED = "succeeded"
    RETRIED = "retried"  # failed, and waits for its next attempt
    SNOOZED = "snoozed"  # the handler asked to run later; not counted as an attempt
    DEAD = "dead"
    CANCELLED = "cancelled"
    LOST = "lost"  # its worker vanished
    RELEASED = "released"  # interrupted by a shutdown; not counted as an attempt

    final: bool  # whether the job leaves the live table with this outcome

    def __init__(self, word: str) -> None:
        # An attribute, because it is read three times per job and a property costs a call.
        self.final = word in ("succeeded", "dead", "cancelled")


FINAL_OUTCOMES = frozenset(kind for kind in OutcomeKind if kind.final)
UNCOUNTED_OUTCOMES = frozenset({OutcomeKind.SNOOZED, OutcomeKind.RELEASED})


class Fault(StrEnum):
    """The reason for which an uncounted attempt was released, if the store counts such attempts."""

    CONNECTION = "connection"  # it lost its connection to the database
    WORKER = "worker"  # its worker failed
