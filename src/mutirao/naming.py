"""Which database a log record is about, where a process serves several."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_served: ContextVar[str | None] = ContextVar("mutirao_database", default=None)


def serve(database: str) -> None:
    """Name the database that this task, and all that it starts, is about."""
    _served.set(database)


def _name(record: logging.LogRecord) -> bool:
    database = _served.get()
    if database is not None:
        record.database = database
    return True


@contextmanager
def naming() -> Iterator[None]:
    """Give the records of the library a field `database` in the block."""
    logger, tell = logging.getLogger("mutirao"), lambda record: _name(record)
    logger.addFilter(tell)
    try:
        yield
    finally:
        logger.removeFilter(tell)
