"""The column types for moments in time, and the reading of JSON as it was written.

PostgreSQL has `timestamptz`. SQLite has no such type: there a moment is an integer, microseconds
since 1970-01-01 UTC, which sorts and compares exactly.

Beside `mutirao.model.row_json`, the one reading of rows, where only the names of an object are of
interest. It raises the same error.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from sqlalchemy import BigInteger, ColumnElement, DateTime, Dialect, Text, case, literal_column
from sqlalchemy.types import TypeDecorator, TypeEngine

from mutirao.model.keys.uniqueness import PARKED
from mutirao.model.moments import EPOCH
from mutirao.model.row_json import NO_READING, unreadable
from mutirao.sql.registry import dialect_of

MICROSECOND = timedelta(microseconds=1)
MICROS_PER_SECOND = 1_000_000
EARLIEST_MOMENT = datetime(1, 6, 1, tzinfo=UTC)  # readable in every time zone
LATEST_MOMENT = datetime(9999, 12, 30, tzinfo=UTC)
AFTER_PARKED = PARKED + timedelta(days=1)  # no lane is read so far: a person has set that by hand


def to_micros(moment: datetime) -> int:
    """Return an aware datetime as microseconds since 1970-01-01 UTC."""
    return (moment - EPOCH) // MICROSECOND


def from_micros(value: Any) -> datetime:
    """Return the aware datetime (UTC) of a number of microseconds since 1970-01-01 UTC.

    Returns the nearest datetime for a number out of range, the one before a fraction, and the
    first one for a value that is not a number: a wrong value in one row must not prevent others
    from being read.
    """
    if not isinstance(value, int | float):
        return EARLIEST_MOMENT
    return EPOCH + timedelta(microseconds=min(max(value, _EARLIEST_MICROS), _LATEST_MICROS) // 1)


def to_micros_or_before(moment: datetime) -> int:
    """Return `to_micros`; for the first moment, which may mean an earlier one, the least number."""
    return -(1 << 63) if moment <= EARLIEST_MOMENT else to_micros(moment)


def iso_text(moment: datetime) -> str:
    """Return an aware datetime as the text that views show; texts sort as the times do."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


_EARLIEST_MICROS, _LATEST_MICROS = to_micros(EARLIEST_MOMENT), to_micros(LATEST_MOMENT)


class Micros(TypeDecorator[datetime]):
    """An aware datetime stored as an integer, in microseconds."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> int | None:
        """Convert a datetime to the stored form."""
        return None if value is None else to_micros(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        """Convert the stored form to a datetime."""
        return None if value is None else from_micros(value)


class Timestamp(TypeDecorator[datetime]):
    """A `timestamptz`; values that Python cannot represent are read as the nearest it can."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def column_expression(self, column: ColumnElement[Any]) -> ColumnElement[Any]:
        """Return an expression limited to what Python can represent."""
        return case((column < _EARLIEST, _EARLIEST), (column > _LATEST, _LATEST), else_=column)


_EARLIEST: ColumnElement[datetime] = literal_column("timestamptz '0001-06-01 00:00Z'")
_LATEST: ColumnElement[datetime] = literal_column("timestamptz '9999-12-30 00:00Z'")


class IsoText(TypeDecorator[datetime]):
    """An aware datetime as text, `2026-11-21T13:44:28.000000Z`; see `iso_text`."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> str | None:
        """Convert a datetime to the text that a view shows."""
        return None if value is None else iso_text(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        """Convert the text of a view to a datetime; an invalid text becomes the first moment."""
        if value is None:
            return None
        try:
            return datetime.fromisoformat(value)
        except (ValueError, TypeError):  # the value was changed by hand
            return EARLIEST_MOMENT


class Instant(TypeDecorator[datetime]):
    """A moment, in the form in which a dialect's tables store it."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[datetime]:
        """Return the dialect's type."""
        return dialect_of(dialect).instant.dialect_impl(dialect)


class Shown(TypeDecorator[datetime]):
    """A moment, in the form in which a dialect's views show it."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[datetime]:
        """Return the dialect's type."""
        return dialect_of(dialect).shown.dialect_impl(dialect)


_UNREADABLE = (msgspec.MsgspecError, *NO_READING)


def read_raw(text: str | bytes, what: str) -> dict[str, msgspec.Raw]:
    """Return the JSON object of a row with its values as they are.

    Raises:
        UnreadableRow: it is no object, or cannot be decoded.
    """
    try:
        return msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    except _UNREADABLE as error:
        raise unreadable(what, error) from error
