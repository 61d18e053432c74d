"""Wake-ups. Each may save latency, never a job: workers poll anyway."""

from collections.abc import Callable

from sqlalchemy import URL

from mutirao.notifiers.postgresql import ENDS, PostgresqlNotifier
from mutirao.notifiers.sqlite import SqliteNotifier
from mutirao.ports import Notifier

_BY_DATABASE: dict[str, Callable[[str | URL], Notifier]] = {
    "postgresql": PostgresqlNotifier,
    "sqlite": SqliteNotifier,
}


def notifier_for(database: str, url: str | URL) -> Notifier | None:
    """Return what wakes workers on a kind of database; None where there is only polling."""
    kind = _BY_DATABASE.get(database)
    return None if kind is None else kind(url)


def ends_notifier_for(database: str, url: str | URL) -> Notifier | None:
    """Return what tells that a job has ended, to those who asked; None where nothing does."""
    if database == "postgresql":
        return PostgresqlNotifier(url, ENDS)
    return notifier_for(database, url)
