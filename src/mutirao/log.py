"""The logger of the library, which never raises and names the database of each record."""

import logging
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any

from mutirao.model.display import one_line


class Log:
    """The logger `mutirao`, as the engine uses it: logging never raises here.

    A program's record factory, filter or handler may raise. That must not end a loop or occupy a
    slot, so the message then goes to standard error, with the reason.
    """

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self.heeds = logger.isEnabledFor

    def say(self, level: int, message: str, *args: object, **more: Any) -> None:
        """Log at a level, as `logging.Logger.log` does."""
        if not self._logger.isEnabledFor(level):
            return
        try:
            self._logger.log(level, message, *args, stacklevel=3, **more)
        except Exception:  # noqa: BLE001 (written to standard error, if possible)
            _say_plainly(message, args)

    def debug(self, message: str, *args: object, **more: Any) -> None:
        """Log details for developers."""
        self.say(logging.DEBUG, message, *args, **more)

    def info(self, message: str, *args: object, **more: Any) -> None:
        """Log normal events."""
        self.say(logging.INFO, message, *args, **more)

    def warning(self, message: str, *args: object, **more: Any) -> None:
        """Log a problem that passes by itself."""
        self.say(logging.WARNING, message, *args, **more)

    def error(self, message: str, *args: object, **more: Any) -> None:
        """Log a problem that somebody must solve."""
        self.say(logging.ERROR, message, *args, **more)

    def exception(self, message: str, *args: object, **more: Any) -> None:
        """Log an error that is being handled."""
        self.say(logging.ERROR, message, *args, exc_info=True, **more)

    def critical(self, message: str, *args: object, **more: Any) -> None:
        """Log an error that ends the worker."""
        self.say(logging.CRITICAL, message, *args, **more)


log = Log(logging.getLogger("mutirao"))


def _say_plainly(message: str, args: tuple[object, ...]) -> None:
    with suppress(Exception):  # there is nowhere left to write
        why = [f"  {one_line(each)}" for each in traceback.format_exc().splitlines()]
        lines = [f"mutirao: {one_line(message % args)}", "(logging failed:", *why, ")"]
        sys.stderr.write("\n".join(lines) + "\n")


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
