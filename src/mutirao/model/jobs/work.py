"""What a probe finds of work that runs elsewhere."""

from enum import StrEnum


class Work(StrEnum):
    """How it is with work that a handler has started elsewhere; the text does as well."""

    RUNNING = "running"  # a sign of life; the probe is asked again
    DONE = "done"  # the attempt succeeds
    FAILED = "failed"  # the attempt fails, and is retried as after an error
