"""One type for moments in time, whatever the database can store.

PostgreSQL has `timestamptz`. SQLite has none: there a moment is an integer, microseconds since
1970-01-01 UTC, which sorts and compares exactly.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, DateTime, Dialect, case, literal_column
from sqlalchemy.types import TypeDecorator

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
SECOND = 1_000_000  # microseconds
FIRST = datetime(1, 6, 1, tzinfo=UTC)  # for programs that read it in whatever time zone
LAST = datetime(9999, 12, 30, tzinfo=UTC)


def to_micros(moment: datetime) -> int:
    """Return an aware datetime as microseconds since 1970-01-01 UTC."""
    return (moment - EPOCH) // MICROSECOND


def from_micros(value: Any) -> datetime:
    """Return the aware datetime (UTC) of a number of microseconds since 1970-01-01 UTC.

    Of one that no datetime can hold the nearest, and of what is no number the first: whatever
    somebody has written there must not keep others from reading.
    """
    if not isinstance(value, int):
        return FIRST
    return EPOCH + timedelta(microseconds=min(max(value, _FIRST), _LAST))


def to_micros_or_before(moment: datetime) -> int:
    """As `to_micros`, and for the first moment the smallest number: that may have been before."""
    return -(1 << 63) if moment <= FIRST else to_micros(moment)


_FIRST, _LAST = to_micros(FIRST), to_micros(LAST)


class Micros(TypeDecorator[datetime]):
    """An aware datetime kept as an integer, in microseconds."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> int | None:
        """Turn a datetime into what the column holds."""
        return None if value is None else to_micros(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        """Turn what the column holds into a datetime."""
        return None if value is None else from_micros(value)


class Timestamp(TypeDecorator[datetime]):
    """A `timestamptz`, which reaches further than Python: what is beyond is read as the nearest."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def column_expression(self, column: ColumnElement[Any]) -> ColumnElement[Any]:
        """Read what Python can hold."""
        return case((column < _EARLIEST, _EARLIEST), (column > _LATEST, _LATEST), else_=column)


_EARLIEST: ColumnElement[datetime] = literal_column("timestamptz '0001-06-01 00:00Z'")
_LATEST: ColumnElement[datetime] = literal_column("timestamptz '9999-12-30 00:00Z'")

Instant = Timestamp().with_variant(Micros(), "sqlite")
