"""The library's own logging, a middleware like any other."""

import logging
from time import monotonic
from typing import Any

from mutirao.job import Job, Outcome, OutcomeKind
from mutirao.middleware import AttemptSteps

log = logging.getLogger("mutirao")

_LEVELS = {
    OutcomeKind.SUCCEEDED: logging.INFO,
    OutcomeKind.SNOOZED: logging.INFO,
    OutcomeKind.RELEASED: logging.INFO,
    OutcomeKind.CANCELLED: logging.INFO,
    OutcomeKind.RETRIED: logging.WARNING,
    OutcomeKind.LOST: logging.WARNING,
    OutcomeKind.DEAD: logging.ERROR,
}


def log_attempts(job: Job) -> AttemptSteps:
    """Log every attempt's end with its outcome, and its start at DEBUG. Payloads stay out."""
    started = monotonic()
    if log.isEnabledFor(logging.DEBUG):
        log.debug("job %s (%s) starts", job.id, job.task, extra=_fields(job))
    outcome = yield
    level = _LEVELS[outcome.kind]
    if log.isEnabledFor(level):
        duration = monotonic() - started
        log.log(
            level,
            "job %s (%s) %s in %.3f s%s",
            *(job.id, job.task, outcome.kind, duration, _why(outcome)),
            extra=_fields(job) | {"duration": duration, "outcome": str(outcome.kind)},
        )


def _fields(job: Job) -> dict[str, Any]:
    return {
        "job": job.id,
        "task": job.task,
        "queue": job.queue,
        "attempt": job.attempt,
        "run": job.run,
    }


def _why(outcome: Outcome) -> str:
    if outcome.error is None:
        return ""
    return f": {outcome.error_type}: {outcome.error.partition(chr(10))[0]}"
