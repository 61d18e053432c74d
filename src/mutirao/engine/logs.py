"""The library's own logging of attempts. Payloads stay out of it.

Functions of the executor's and no middleware, which would cost every job a generator and a `Job`:
1.4 of 8 µs that the engine takes for one.
"""

import logging
from time import monotonic
from typing import Any

from mutirao.job import SUCCEEDED, Claim, Outcome, OutcomeKind

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


def started(claim: Claim) -> None:
    """Log that an attempt starts, at DEBUG."""
    if log.isEnabledFor(logging.DEBUG):
        log.debug("job %s (%s) starts", claim.id, claim.task, extra=_fields(claim))


def ended(claim: Claim, outcome: Outcome, since: float) -> None:
    """Log how an attempt ended that started at this monotonic time, at the level it deserves."""
    level = logging.INFO if outcome is SUCCEEDED else _LEVELS[outcome.kind]
    if log.isEnabledFor(level):
        duration = monotonic() - since
        log.log(
            level,
            "job %s (%s) %s in %.3f s%s",
            *(claim.id, claim.task, outcome.kind, duration, _why(outcome)),
            extra=_fields(claim) | {"duration": duration, "outcome": str(outcome.kind)},
        )


def _fields(claim: Claim) -> dict[str, Any]:
    return {
        "job": claim.id,
        "task": claim.task,
        "queue": claim.queue,
        "attempt": claim.attempt,
        "run": claim.run,
    }


def _why(outcome: Outcome) -> str:
    if outcome.error is None:
        return ""
    return f": {outcome.error_type}: {outcome.error.partition(chr(10))[0]}"
