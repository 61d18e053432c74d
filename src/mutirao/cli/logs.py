"""Standard logging on standard error, for people or for machines.

The extra fields of a record (`extra={"job": 7}`) are shown: a worker's records have the job's id,
task, queue, attempt and run, and the duration in seconds.
"""

import json
import logging
import re
import sys
from datetime import UTC, datetime
from typing import Any, Literal

from mutirao.model.display import one_line

Format = Literal["text", "json"]
_ECHOES = (
    "error when creating transport",
    "Unexpected connection close from remote",
    "Cancelling cause reader exited abnormally",
)
INDENT = "  "  # of lines that continue a record
_UNPLAIN = re.compile(r'[\s"=\[\]]')  # what would end a field, or begin another one
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def mute_echoes() -> None:
    """Leave out what others log of an error that is raised, and that a command tells itself."""
    logging.getLogger("aiormq.connection").addFilter(_is_no_echo)


def configure(form: Format, level: str) -> None:
    """Send our records of at least `level` to standard error, one per line, and others' from INFO.

    `debug` is ours alone: at that level botocore, aiormq and others log whole messages, with the
    arguments of jobs and what requests are signed with.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(max(logging.INFO, logging.getLevelNamesMapping()[level.upper()]))
    logging.getLogger("mutirao").setLevel(level.upper())


def _is_no_echo(record: logging.LogRecord) -> bool:
    return not str(record.msg).startswith(_ECHOES)


class TextFormatter(logging.Formatter):
    """A formatter for people: time, level, logger, message, and the fields as name=value.

    Each record begins its own line, and none begins inside of one: what is not printable is
    escaped, and the lines of a traceback are indented.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line, followed by the traceback if there is one."""
        fields = " ".join(f"{name}={_short(value)}" for name, value in _fields(record).items())
        said = one_line(f"{record.name}: {record.getMessage()}")
        line = f"{_time(record)} {record.levelname:<7} {said}"
        trace = "".join(f"\n{INDENT}{one_line(each)}" for each in _trace(self, record).split("\n"))
        return (f"{line} [{fields}]" if fields else line) + (trace if trace.strip() else "")


class JsonFormatter(logging.Formatter):
    """A formatter of JSON lines: time, level, logger, message, the fields, and the error if any."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as a JSON object."""
        said: dict[str, Any] = {
            "time": _time(record),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **_fields(record),
        }
        trace = _trace(self, record)
        if trace:
            said["error"] = trace
        line = json.dumps(said, default=str, ensure_ascii=False)
        # Half a character, which no stream takes, becomes the escape that JSON has for it.
        return line.encode("utf-8", "backslashreplace").decode()


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    return {name: value for name, value in vars(record).items() if name not in _STANDARD}


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3f}"
    text = one_line(str(value))
    if not _UNPLAIN.search(text):
        return text
    quoted = text.replace('"', r"\"")
    return f'"{quoted}"'


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"


def _trace(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    return formatter.formatException(record.exc_info) if record.exc_info else ""
