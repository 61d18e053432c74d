"""Connecting to PostgreSQL: psycopg 3 for everything, asyncpg and psycopg2 for what they can."""

from mutirao.sql.dialects.connecting import Connecting, Drivers

_PSYCOPG = Drivers("postgresql+psycopg", "postgresql+psycopg", "postgresql")

CONNECTING = Connecting(
    database="postgresql",
    schemes={
        "postgresql": _PSYCOPG,
        "postgresql+psycopg": _PSYCOPG,
        "postgresql+asyncpg": Drivers(None, "postgresql+asyncpg", "asyncpg"),
        "postgresql+psycopg2": Drivers("postgresql+psycopg2", None, "psycopg2"),
    },
)
