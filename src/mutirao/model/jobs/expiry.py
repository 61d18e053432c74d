"""The moment after which a job expires: it ends as cancelled, and never starts late.

It is in the job's metadata. A claim includes that, and a broker carries it, so a worker knows it
without a query, and jobs without an expiry cost nothing: no column, no statement.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol

from mutirao.errors import InvalidJob
from mutirao.model.jobs.retry import FIRST_YEAR, LAST_YEAR
from mutirao.model.row_json import UnreadableRow, read_object

if TYPE_CHECKING:
    from mutirao.model.jobs.job import NewJob

EXPIRES_KEY = "@expires"  # the key of the moment in the metadata
EXPIRED = "Expired"  # the type of the error with which an expired job ends
REASON = "it had not started by the moment until which it was wanted"
SHARED = 0.1  # seconds by which a job may expire early, at most


class Expiring(Protocol):
    """The part of a claim that is needed here."""

    @property
    def metadata(self) -> str | None:
        """The metadata, as JSON."""
        ...

    @property
    def redrive_of(self) -> int | None:
        """The id of the job that this one repeats."""
        ...


def expiring(metadata: Mapping[str, Any], moment: datetime) -> dict[str, Any]:
    """Return the metadata of a job that expires at a moment (aware)."""
    return {**metadata, EXPIRES_KEY: moment.astimezone(UTC).isoformat()}


def expiry_in(metadata: Mapping[str, Any]) -> datetime | None:
    """Return the moment of expiry in metadata; None if there is none.

    Raises:
        ValueError: it is no moment with a time zone.
    """
    if (said := metadata.get(EXPIRES_KEY)) is None:
        return None
    moment = None
    with suppress(ValueError):  # raised below, as for a value that is no text
        moment = datetime.fromisoformat(said) if isinstance(said, str) else None
    if moment is None or moment.tzinfo is None or not FIRST_YEAR <= moment.year <= LAST_YEAR:
        raise ValueError(
            f"{EXPIRES_KEY!r} in the metadata is {said!r:.100}; give a moment with a time zone,"
            " such as 2030-01-31T12:00:00+00:00"
        )
    return moment


def check_expiry(metadata: Mapping[str, Any], run_at: datetime | None) -> None:
    """Raise InvalidJob if a job could never start, or its metadata has no valid moment."""
    try:
        moment = expiry_in(metadata)
    except ValueError as unfit:
        raise InvalidJob(str(unfit)) from None
    if moment is not None and run_at is not None and run_at > moment:
        raise InvalidJob(
            f"the job is due at {run_at}, and expires before that, at {moment}; give an earlier"
            " run_at, or a later moment"
        )


def expiry_of(job: Expiring) -> datetime | None:
    """Return the moment after which a claimed job must not start; None: there is none.

    A job that a person has redriven does not expire, whatever the first one's expiry was.

    Raises:
        UnreadableRow: another program has written a value that is no moment.
    """
    text = job.metadata
    if text is None or EXPIRES_KEY not in text or job.redrive_of is not None:
        return None
    try:
        return expiry_in(read_object(text, "its metadata"))
    except ValueError as unfit:
        raise UnreadableRow(str(unfit)) from None


def ending_at(job: "NewJob", now: datetime) -> "NewJob":
    """Return a job with the moment at which it expires, if its lifetime is given in seconds.

    Jobs of one call that come almost at once share the checked and written moment of the first one:
    so enqueueing many costs as much as without expiry. They may expire up to 0.1 s early.
    """
    seconds = job.expires or 0.0
    until, shared = now + timedelta(seconds=seconds), timedelta(seconds=min(SHARED, seconds / 100))
    kept: tuple[datetime, NewJob] | None = job.checked.written.get(EXPIRES_KEY)
    if kept is None or not until - shared <= kept[0] <= until:
        kept = until, replace(job, metadata=expiring(job.metadata, until))
        job.checked.written[EXPIRES_KEY] = kept
    return kept[1]


def lasting(job: "NewJob") -> "NewJob":
    """Return the job of a schedule, which has the lifetime of each of its jobs in seconds."""
    if job.expires is None:
        return job
    return replace(job, metadata={**job.metadata, EXPIRES_KEY: job.expires}, expires=None)


def begun(metadata: Mapping[str, Any], now: datetime) -> Mapping[str, Any]:
    """Return the metadata of a job that a schedule makes now, from the lifetime of `lasting`."""
    seconds = metadata.get(EXPIRES_KEY)
    if not isinstance(seconds, int | float):
        return metadata
    with suppress(OverflowError, ValueError):  # the worker that takes the job reports the error
        return expiring(metadata, now + timedelta(seconds=seconds))
    return metadata
