"""Computes outcomes from how a handler ended. Pure functions: other modules write the outcomes."""

import traceback
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, tzinfo

from mutirao.errors import SettlingFailed, StaleRun
from mutirao.log import log
from mutirao.model.jobs.expiry import EXPIRED, EXPIRES_KEY, REASON, expiry_of
from mutirao.model.jobs.job import MAX_ERROR_TEXT, Claim, Keep, OutcomeKind
from mutirao.model.jobs.outcome import SUCCEEDED, Outcome
from mutirao.model.jobs.retry import Cancel, Dead, Retry, RetryPolicy, Snooze
from mutirao.model.jobs.states import Fault
from mutirao.model.row_json import UnreadableRow, storable

RELEASED = Outcome(
    OutcomeKind.RELEASED, after=0.0, error_type="Shutdown", error="interrupted by a shutdown"
)
WORKER_FAILED = Outcome(
    OutcomeKind.RELEASED,
    after=0.0,
    error_type="WorkerFailed",
    error="interrupted, as its worker failed",
    fault=Fault.WORKER,
)
CANCELLED = Outcome(OutcomeKind.CANCELLED, error_type="Cancel", error="cancelled on request")
LOST = Outcome(OutcomeKind.LOST)  # never written: other workers hold the job now
CUT_OFF_DELAY = 1.0  # seconds until a job that lost its database connection runs again
NOT_STARTED_DELAY = 1.0  # seconds until a job that found no thread or child is tried again
POLICY_FAILED_DELAY = 60.0  # seconds to wait when the user's own backoff function raises


def of_error(
    error: BaseException, attempt: int, max_attempts: int | None, policy: RetryPolicy
) -> Outcome:
    """Return the outcome for an exception that left a handler.

    Parameters:
        attempt: the number of the attempt that raised it.
        max_attempts: the job's own limit; None: the policy's.
    """
    match error:
        case Snooze():
            return _outcome(OutcomeKind.SNOOZED, error, after=error.after, at=error.at)
        case Dead():
            return _outcome(OutcomeKind.DEAD, error)
        case Cancel():
            return replace(_outcome(OutcomeKind.CANCELLED, error), stops=error.schedule)
        case StaleRun():  # the worker that took the job decides; this outcome will be stale
            return _outcome(OutcomeKind.RETRIED, error, after=0.0)
    try:
        return _of_failure(error, attempt, max_attempts, policy)
    except Exception:
        log.exception("a retry policy failed; waiting %s s instead", POLICY_FAILED_DELAY)
        return _outcome(OutcomeKind.RETRIED, error, after=POLICY_FAILED_DELAY)


def success(value: object, keep: Keep | None) -> Outcome:
    """Return the outcome of a handler that returned a value.

    Raises:
        InvalidResult: the value cannot be stored.
    """
    return SUCCEEDED if keep is None else Outcome(OutcomeKind.SUCCEEDED, result=keep(value))


def cut_off(error: BaseException) -> Outcome:
    """Return the outcome of a handler that lost its database connection; no attempt is counted."""
    outcome = _outcome(OutcomeKind.RELEASED, error, after=CUT_OFF_DELAY)
    return replace(outcome, fault=Fault.CONNECTION)


def not_started(error: BaseException) -> Outcome:
    """Return the outcome of a job whose handler could not begin; no attempt is counted."""
    return _outcome(OutcomeKind.RELEASED, error, after=NOT_STARTED_DELAY)


def postponed(seconds: float) -> Outcome:
    """Return the outcome of a job that waits while another job that loses workers runs."""
    return Outcome(
        OutcomeKind.RELEASED,
        after=seconds,
        error_type="Suspect",
        error="workers ended while they had this job, so it runs without others of its kind",
    )


def unwritable(reason: BaseException) -> Exception:
    """Return the error of an attempt whose outcome the database refuses to write."""
    return SettlingFailed(f"the outcome of this attempt could not be written: {message(reason)}")


def of_expiry(claim: Claim, clock: Callable[[tzinfo], datetime]) -> Outcome | None:
    """Return the outcome of an expired job; None: it may start.

    `clock`: asked only if the job has an expiry.
    """
    if claim.metadata is None or EXPIRES_KEY not in claim.metadata:
        return None
    try:
        until = expiry_of(claim)
    except UnreadableRow as unfit:
        return dead("UnreadableJob", str(unfit))
    if until is None or clock(UTC) <= until:
        return None
    return Outcome(OutcomeKind.CANCELLED, error_type=EXPIRED, error=REASON)


def dead(error_type: str, reason: str) -> Outcome:
    """Return the outcome of a job that must not run (any more)."""
    return Outcome(OutcomeKind.DEAD, error_type=error_type, error=shortened(reason))


def shortened(text: str) -> str:
    """Return text that every database can store; the middle of a long text is left out."""
    text = storable(text)
    if len(text) <= MAX_ERROR_TEXT:
        return text
    half = MAX_ERROR_TEXT // 2 - 30
    left_out = len(text) - 2 * half
    return f"{text[:half]}\n… {left_out:,} characters left out …\n{text[-half:]}"


def _of_failure(
    error: BaseException, attempt: int, max_attempts: int | None, policy: RetryPolicy
) -> Outcome:
    chosen = policy.for_error(error)
    asked = error if isinstance(error, Retry) else None
    limit = max_attempts or chosen.max_attempts
    if attempt >= limit or not (asked or chosen.retries(error)):
        return _outcome(OutcomeKind.DEAD, error)
    if asked and (asked.after is not None or asked.at is not None):
        return _outcome(OutcomeKind.RETRIED, error, after=asked.after, at=asked.at)
    wait = chosen.delay(attempt, None if asked else error)
    return replace(_outcome(OutcomeKind.RETRIED, error, after=wait), apart=chosen.apart)


def _outcome(
    kind: OutcomeKind, error: BaseException, after: float | None = None, at: object = None
) -> Outcome:
    return Outcome(kind, after, at, _name(error), shortened(_text(error)))  # type: ignore[arg-type]


def _name(error: BaseException) -> str:
    kind = type(error)
    plain = kind.__module__ in ("builtins", "mutirao.model.jobs.retry", "mutirao.errors")
    return shortened(kind.__qualname__ if plain else f"{kind.__module__}.{kind.__qualname__}")[:200]


def _text(error: BaseException) -> str:
    """Return the message on the first lines, for grouping, then the traceback.

    A signal that the handler raised has no traceback.
    """
    said = message(error)
    if isinstance(error, Snooze | Dead | Cancel | Retry):
        return said
    try:
        trace = "".join(traceback.format_exception(error))
    except Exception as broken:
        trace = f"<there is no traceback: {type(broken).__name__}>"
    return f"{said}\n\n{trace}"


def message(error: BaseException) -> str:
    """Return the message of an error, even if its `__str__` raises."""
    try:
        return str(error) or type(error).__name__
    except BaseException as broken:
        return f"<its __str__ raised {type(broken).__name__}>"
