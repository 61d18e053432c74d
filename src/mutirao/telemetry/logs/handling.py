"""A handler whose lines stay whole, and a filter that adds the job to log records."""

import logging
import sys
from typing import Any

from mutirao import log

_UNWRITABLE = "a record of %s cannot be written: %s; its message is %r"


def job_fields() -> dict[str, Any]:
    """Return the fields of a record that is made here: the job, its worker, and the trace.

    For logging libraries other than `logging`. In a handler that is `job`, `task`, `queue`,
    `attempt`, `run` and `worker`; `tenant`, `group`, `database`, `trace` and `span` where they are
    known. In its threads and child processes, too; elsewhere what is known there, or nothing.
    """
    return log.fields()


class JobFields(logging.Filter):
    """A filter that accepts all records, and gives each the fields of the job it is made for.

    It belongs to a handler, not to a logger, whose filters do not see the records of the loggers
    below; and to a `QueueHandler` rather than to the listener behind it, in another thread. A
    field that a record has already stays as it is.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Return True, and set the fields."""
        own = vars(record)
        for name, value in log.fields().items():
            own.setdefault(name, value)
        return True


class LineHandler(logging.StreamHandler[Any]):
    """A handler for a stream that writes each record exactly as its formatter returns it.

    `logging` itself prints a traceback among the lines if it cannot format a record.
    """

    def __init__(self, formatter: logging.Formatter, stream: Any = None) -> None:
        """Set the parts; `stream`: None: standard error."""
        super().__init__(sys.stderr if stream is None else stream)
        self.setFormatter(formatter)
        self.addFilter(JobFields())

    def format(self, record: logging.LogRecord) -> str:
        """Return the record's line, or one with the reason why there is none."""
        try:
            return super().format(record)
        except Exception as error:  # noqa: BLE001 (said in the line)
            return super().format(_unwritable(record, error))


def _unwritable(record: logging.LogRecord, error: Exception) -> logging.LogRecord:
    told = (record.name, f"{type(error).__name__}: {error}"[:300], str(record.msg)[:300])
    return logging.makeLogRecord({
        "name": "mutirao", "levelno": logging.ERROR, "levelname": "ERROR",
        "msg": _UNWRITABLE, "args": told, "event": "log.unwritable", "created": record.created,
    })  # fmt: skip
