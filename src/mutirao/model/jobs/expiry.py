"""The moment after which a job is not wanted any more: it ends as cancelled, and never starts late.

It is in the job's metadata. A claim includes that, and a broker carries it, so a worker knows
without a query, and jobs without such a moment cost nothing: no column, no statement.
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
EXPIRED = "Expired"  # the type of the error with which such a job ends
REASON = "it had not started by the moment until which it was wanted"
SHARED = 0.1  # seconds by which a job may expire early, at the most


class Expiring(Protocol):
    """What a claim says that matters here."""

    @property
    def metadata(self) -> str | None:
        """The metadata, as JSON."""
        ...

    @property
    def redrive_of(self) -> int | None:
        """The id of the job that this one repeats."""
        ...


def expiring(metadata: Mapping[str, Any], moment: datetime) -> dict[str, Any]:
    """Return the metadata of a job that is not wanted any more after a moment (aware)."""
    return {**metadata, EXPIRES_KEY: moment.astimezone(UTC).isoformat()}


def expiry_in(metadata: Mapping[str, Any]) -> datetime | None:
    """Return the moment that metadata names; None if it names none.

    Raises:
        ValueError: it is no moment with a time zone.
    """
    if (said := metadata.get(EXPIRES_KEY)) is None:
        return None
    moment = None
    with suppress(ValueError):  # raised below, as for what is no text
        moment = datetime.fromisoformat(said) if isinstance(said, str) else None
    if moment is None or moment.tzinfo is None or not FIRST_YEAR <= moment.year <= LAST_YEAR:
        raise ValueError(
            f"{EXPIRES_KEY!r} in the metadata is {said!r:.100}; give a moment with a time zone,"
            " such as 2030-01-31T12:00:00+00:00"
        )
    return moment


def check_expiry(metadata: Mapping[str, Any], run_at: datetime | None) -> None:
    """Raise InvalidJob if a job could never start, or its metadata names no moment."""
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
    """Return the moment after which a claimed job is not to start; None: there is none.

    A job that people have redriven is wanted, whatever the first one said.

    Raises:
        UnreadableRow: others than Mutirão have written what is no moment.
    """
    text = job.metadata
    if text is None or EXPIRES_KEY not in text or job.redrive_of is not None:
        return None
    try:
        return expiry_in(read_object(text, "its metadata"))
    except ValueError as unfit:
        raise UnreadableRow(str(unfit)) from None


def ending_at(job: "NewJob", now: datetime) -> "NewJob":
    """Return a job that is wanted for so long as it says, from now on.

    Jobs of the same call within a moment share what was checked and written for the first: many
    that are enqueued at once are as cheap as others. It is a little less than was asked for.
    """
    seconds = job.expires or 0.0
    until, shared = now + timedelta(seconds=seconds), timedelta(seconds=min(SHARED, seconds / 100))
    kept: tuple[datetime, NewJob] | None = job.checked.written.get(EXPIRES_KEY)
    if kept is None or not until - shared <= kept[0] <= until:
        kept = until, replace(job, metadata=expiring(job.metadata, until))
        job.checked.written[EXPIRES_KEY] = kept
    return kept[1]


def lasting(job: "NewJob") -> "NewJob":
    """Return the job of a schedule, which says for how long each of its jobs is wanted."""
    if job.expires is None:
        return job
    return replace(job, metadata={**job.metadata, EXPIRES_KEY: job.expires}, expires=None)


def begun(metadata: Mapping[str, Any], now: datetime) -> Mapping[str, Any]:
    """Return the metadata of a job that a schedule makes now, of what `lasting` said."""
    seconds = metadata.get(EXPIRES_KEY)
    if not isinstance(seconds, int | float):
        return metadata
    with suppress(OverflowError, ValueError):  # whoever takes the job says what is wrong with it
        return expiring(metadata, now + timedelta(seconds=seconds))
    return metadata
