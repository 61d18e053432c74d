"""Where Django's connections differ: which database one is of, by Django's name for it."""

from typing import Any


def is_postgresql(connection: Any) -> bool:
    """Return whether it is PostgreSQL."""
    return bool(connection.vendor == "postgresql")


def is_sqlite(connection: Any) -> bool:
    """Return whether it is SQLite."""
    return bool(connection.vendor == "sqlite")
