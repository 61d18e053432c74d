"""Moments: integers in the tables, as the rules count them; `datetime(6)` in UTC in the views.

Also other constants that SQL files name.
"""

from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

from sqlalchemy import Dialect
from sqlalchemy.dialects.mysql import DATETIME
from sqlalchemy.types import TypeDecorator

from mutirao.model.keys.uniqueness import PARKED
from mutirao.sql.schema.types import to_micros

# The server's clock, in microseconds since 1970-01-01 UTC, whatever the session's time zone.
NOW = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))"

CONSTANTS = MappingProxyType(
    {
        "now": NOW,
        "parked": str(to_micros(PARKED)),
        "epoch": "TIMESTAMP'1970-01-01 00:00:00'",
        # All our texts are compared byte for byte, blanks at the end included.
        "bytes": "/*M! COLLATE utf8mb4_nopad_bin */ /*!80000 COLLATE utf8mb4_0900_bin */",
    }
)


class InUtc(TypeDecorator[datetime]):
    """An aware datetime as a `datetime(6)`, which has no zone: it is in UTC."""

    impl = DATETIME(fsp=6)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Convert an aware datetime to what the column holds."""
        return None if value is None else in_utc(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        """Convert what the column holds to an aware datetime."""
        return None if value is None else value.replace(tzinfo=UTC)


def in_utc(moment: datetime) -> datetime:
    """Return an aware datetime without its zone, in UTC."""
    return moment.astimezone(UTC).replace(tzinfo=None)
