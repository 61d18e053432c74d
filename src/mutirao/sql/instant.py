"""One type for moments in time, whatever the database can store.

PostgreSQL has `timestamptz`. SQLite has none: there a moment is an integer, microseconds since
1970-01-01 UTC, which sorts and compares exactly.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import BigInteger, DateTime, Dialect
from sqlalchemy.types import TypeDecorator, TypeEngine

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


def to_micros(moment: datetime) -> int:
    """Return an aware datetime as microseconds since 1970-01-01 UTC."""
    return (moment - EPOCH) // MICROSECOND


def from_micros(value: int) -> datetime:
    """Return the aware datetime (UTC) of a number of microseconds since 1970-01-01 UTC."""
    return EPOCH + timedelta(microseconds=value)


class Instant(TypeDecorator[datetime]):
    """An aware datetime: `timestamptz`, or integer microseconds where there is no such type."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Choose the column type of a dialect."""
        if dialect.name == "sqlite":
            return dialect.type_descriptor(BigInteger())
        return dialect.type_descriptor(DateTime(timezone=True))

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> Any:
        """Turn a datetime into what the column holds."""
        if value is None or dialect.name != "sqlite":
            return value
        return to_micros(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        """Turn what the column holds into a datetime."""
        if value is None or dialect.name != "sqlite":
            return value  # type: ignore[no-any-return]
        return from_micros(value)
