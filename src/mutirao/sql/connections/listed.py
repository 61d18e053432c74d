"""Parses the list of databases that an application's provider returns."""

from collections.abc import Iterable, Iterator

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from mutirao.errors import ConfigurationError
from mutirao.sql.connections.budget import Budget
from mutirao.sql.connections.engines import Engines
from mutirao.sql.connections.urls import shown


def named(listed: object, budget: Budget | None = None) -> dict[str, str]:
    """Return the URLs of a list of databases, each with the name that may be shown.

    `budget`: gets the number of those that are on servers.

    Raises:
        ConfigurationError: it is no list of URLs, or one is of no database that is known. The
            message has no password.
    """
    if isinstance(listed, str | URL) or not isinstance(listed, Iterable):
        raise ConfigurationError(
            f"the databases are given as {type(listed).__name__}; give a list of their URLs"
        )
    found = {url.render_as_string(hide_password=False): url for url in _parsed(listed)}
    if budget is not None:
        budget.expect(sum(not Engines(url).in_file for url in found.values()))
    return {key: shown(url) for key, url in found.items()}


def _parsed(listed: Iterable[object]) -> Iterator[URL]:
    for n, each in enumerate(listed, start=1):
        yield _url(n, each)


def _url(n: int, url: object) -> URL:
    if not isinstance(url, str | URL):
        raise ConfigurationError(
            f"number {n} of the databases is given as {type(url).__name__}; give a URL"
        )
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):  # a port that is no number
        raise ConfigurationError(
            f"number {n} of the databases has no valid URL; give one like"
            " postgresql+psycopg://user@host/database or sqlite:///shop.db"
        ) from None
    Engines(url)  # it says what is wrong with it
    return parsed
