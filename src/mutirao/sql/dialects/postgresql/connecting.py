"""Connecting to PostgreSQL: psycopg 3 for everything, asyncpg and psycopg2 for what they can."""

from mutirao.sql.dialects.connecting import Connecting, Drivers

# Nothing of ours is an hstore. Looking for that type opens a transaction of the driver's: one that
# was cancelled there hid its cancellation behind a ProgrammingError, and ended the worker.
_NO_HSTORE = {"use_native_hstore": False}
_PSYCOPG = Drivers("postgresql+psycopg", "postgresql+psycopg", "postgresql", _NO_HSTORE)

CONNECTING = Connecting(
    database="postgresql",
    schemes={
        "postgresql": _PSYCOPG,
        "postgresql+psycopg": _PSYCOPG,
        "postgresql+asyncpg": Drivers(None, "postgresql+asyncpg", "asyncpg"),
        "postgresql+psycopg2": Drivers("postgresql+psycopg2", None, "psycopg2", _NO_HSTORE),
    },
)
