"""One type for moments in time, whatever the database can store.

PostgreSQL has `timestamptz`. SQLite has none: there a moment is an integer, microseconds since
1970-01-01 UTC, which sorts and compares exactly.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import BigInteger, DateTime, Dialect
from sqlalchemy.types import TypeDecorator

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


def to_micros(moment: datetime) -> int:
    """Return an aware datetime as microseconds since 1970-01-01 UTC."""
    return (moment - EPOCH) // MICROSECOND


def from_micros(value: int) -> datetime:
    """Return the aware datetime (UTC) of a number of microseconds since 1970-01-01 UTC."""
    return EPOCH + timedelta(microseconds=value)


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


Instant = DateTime(timezone=True).with_variant(Micros(), "sqlite")
