"""URLs of databases, and the dialect that each stands for."""

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from mutirao.errors import ConfigurationError
from mutirao.model.display import is_ambiguous, without_password
from mutirao.sql.dialects.base import Dialect
from mutirao.sql.registry import DIALECTS, all_dialects, dialect_named


def _has_rest(parsed: URL, given: str | URL) -> bool:
    """Return whether a part of a password may have become a host, which drivers would show."""
    if not parsed.host and parsed.username is None:  # a file
        return False
    return "@" in (parsed.host or "") or (isinstance(given, str) and is_ambiguous(given))


def refuse_rest(parsed: URL, given: str | URL) -> None:
    """Raise ConfigurationError if a part of a password may have become a host."""
    if _has_rest(parsed, given):
        raise ConfigurationError(
            f"the database URL {without_password(given)!r} has more than one @; write @ in a"
            " password or a parameter as %40, and in a password : as %3A and / as %2F"
        )


def shown(url: URL) -> str:
    """Return a URL without its password, however it was read."""
    return without_password(url.render_as_string(hide_password=False))


def parse_url(url: str | URL) -> tuple[URL, Dialect]:
    """Return the URL and its dialect; raise ConfigurationError, with the known ones, if unknown."""
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):  # a port that is no number
        raise ConfigurationError(
            f"{without_password(url)!r} is no database URL; give one like sqlite:///mutirao.db or"
            " postgresql+psycopg://user@host/database"
        ) from None
    refuse_rest(parsed, url)
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
