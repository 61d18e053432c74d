"""Moments with a special meaning, as constants of PostgreSQL's SQL."""

from datetime import datetime

from mutirao.model.keys.uniqueness import PARKED
from mutirao.sql.schema.types import AFTER_PARKED


def _quoted(moment: datetime) -> str:
    return f"'{moment:%Y-%m-%d %H:%MZ}'"


CONSTANTS = {"parked": _quoted(PARKED), "beyond": _quoted(AFTER_PARKED)}
