"""The answers of a probe about work that runs elsewhere."""

from enum import StrEnum


class Work(StrEnum):
    """The state of work that a handler has started elsewhere; its text may be used instead."""

    RUNNING = "running"  # a sign of life; the probe is asked again
    DONE = "done"  # the attempt succeeds
    FAILED = "failed"  # the attempt fails, and is retried as after an error
