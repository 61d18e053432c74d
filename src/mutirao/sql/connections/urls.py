"""URLs of databases, and the dialect that each stands for."""

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from mutirao.errors import ConfigurationError
from mutirao.sql.dialects.base import Dialect
from mutirao.sql.registry import DIALECTS, all_dialects, dialect_named


def parse_url(url: str | URL) -> tuple[URL, Dialect]:
    """Return the URL and its dialect; raise ConfigurationError, with the known ones, if unknown."""
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise ConfigurationError(
            f"{url!r} is no database URL; give one like sqlite:///mutirao.db or"
            " postgresql+psycopg://user@host/database"
        ) from None
    name = parsed.drivername.partition("+")[0]
    dialect = dialect_named(name) if name in DIALECTS else None
    if dialect is not None and parsed.drivername in dialect.connecting.unsound:
        raise ConfigurationError(dialect.connecting.unsound[parsed.drivername])
    if dialect is None or parsed.drivername not in dialect.connecting.schemes:
        known = [scheme for each in all_dialects() for scheme in each.connecting.schemes]
        raise ConfigurationError(
            f"the database URL begins with {parsed.drivername!r}; known are {', '.join(known)}"
        )
    if (reason := dialect.connecting.refuse(parsed)) is not None:
        raise ConfigurationError(reason)
    return parsed, dialect
