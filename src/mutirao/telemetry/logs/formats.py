"""Formatters of records: one event is one line, whatever a name, a message or a field holds.

The extra fields of a record (`extra={"job": 7}`) are shown. Those that machines read by name stand
first and cannot be replaced: a field of a program's own that is called like one of these gets an
underscore behind its name.
"""

import json
import logging
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from math import isfinite
from typing import Any

from mutirao.model.display import one_line

LONGEST = 32_000  # characters of one text in a line: its beginning and its end
INDENT = "  "  # of lines that continue a record, as text
NO_EVENT = "log"  # of records that no event has a name for
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_FIRST = ("time", "level", "event", "logger", "message")
_LAST = ("error", "traceback")
_RESERVED = frozenset((*_FIRST, *_LAST))
# In a line for people the message says these, or the process is known.
_SAID = frozenset(("event", "error", "worker"))
_encode = json.JSONEncoder(default=str, ensure_ascii=False, allow_nan=False).encode
_UNPLAIN = re.compile(r'[\s"=\[\]]')  # what would end a field, or begin another one
_UNNAMED = re.compile(r"[^\w.-]")  # what the name of a field cannot have


class TextFormatter(logging.Formatter):
    """A formatter for people: time, level, logger, message, and the fields as name=value.

    Each record begins its own line, and none begins inside of one: what is not printable is
    escaped, and the lines of a traceback are indented.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line, followed by the traceback if there is one."""
        shown = ((name, each) for name, each in _extra(record) if name not in _SAID)
        fields = " ".join(f"{_name(name)}={_short(value)}" for name, value in shown)
        said = one_line(f"{record.name}: {_cut(record.getMessage())}")
        line = f"{_time(record)} {record.levelname:<7} {said}"
        lines = _traceback(self, record).split("\n")
        trace = "".join(f"\n{INDENT}{one_line(each)}" for each in lines)
        return (f"{line} [{fields}]" if fields else line) + (trace if trace.strip() else "")


class JsonFormatter(logging.Formatter):
    """A formatter of JSON lines: the fields of `docs/logs.md`, and the record's others."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as a JSON object, in one line of printable characters."""
        return _json(_whole(self, record))


class LogfmtFormatter(logging.Formatter):
    """A formatter of `name=value` lines, as logfmt has them: the same fields, without depth.

    A value that is no plain word is in quotes, escaped as in JSON; a list or an object is JSON
    in quotes.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line of printable characters."""
        said = _whole(self, record).items()
        return " ".join(f"{_name(name)}={_logfmt(value)}" for name, value in said)


def _whole(formatter: logging.Formatter, record: logging.LogRecord) -> dict[str, Any]:
    """Return all that a line says, in order; what is not known is left out."""
    said: dict[str, Any] = {
        "time": _time(record),
        "level": record.levelname,
        "event": str(getattr(record, "event", NO_EVENT)),
        "logger": record.name,
        "message": _cut(record.getMessage()),
    }
    for name, value in _extra(record):
        if name not in _RESERVED:
            said[name] = _told(value)
        elif name not in ("event", "error"):
            said[f"{name}_"] = _told(value)
    if (error := getattr(record, "error", None)) is not None:
        said["error"] = _told(error)
    elif record.exc_info and record.exc_info[1] is not None:
        said["error"] = _cut(_in_words(record.exc_info[1]))
    if trace := _traceback(formatter, record):
        said["traceback"] = trace
    return said


def _in_words(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"
    except Exception as unfit:  # noqa: BLE001 (its own text raises)
        return f"{type(error).__name__}, whose text raises {type(unfit).__name__}"


def _extra(record: logging.LogRecord) -> Iterator[tuple[str, Any]]:
    for name, value in vars(record).items():
        if name not in _STANDARD:
            yield name, value


def _told(value: Any) -> Any:
    """Return the value of a field; the id of a message as people write it, not as a number."""
    if isinstance(value, str):
        return _cut(value)
    return str(value) if isinstance(value, int) and type(value) not in (int, bool) else value


def _json(value: Any) -> str:
    """Return JSON in which nothing acts: what is not printable is escaped as JSON has it."""
    try:
        line = _encode(value)
    except (TypeError, ValueError):  # no number, no name, or a circle
        line = _encode(_plain(value))
    if line.isprintable():
        return line
    return "".join(each if each.isprintable() else json.dumps(each)[1:-1] for each in line)


def _plain(value: Any, depth: int = 0) -> Any:
    """Return a value that JSON can hold: no NaN, no other names than texts, no circle."""
    match value:
        case str() | bool() | None:
            return value
        case float():
            return value if isfinite(value) else str(value)
        case dict() if depth < 5:
            return {str(name): _plain(each, depth + 1) for name, each in value.items()}
        case list() | tuple() if depth < 5:
            return [_plain(each, depth + 1) for each in value]
        case dict() | list() | tuple():
            return "…"
    return int(value) if type(value) is int else str(value)


def _logfmt(value: Any) -> str:
    match value:
        case None | bool():
            return {None: "null", True: "true", False: "false"}[value]
        case float() if isfinite(value):
            return f"{value:.3f}"
        case dict() | list() | tuple():
            text = _json(value)
        case _:
            text = str(value)
    if text and text.isprintable() and not _UNPLAIN.search(text) and "\\" not in text:
        return text
    return _json(text)


def _name(name: str) -> str:
    """Return the name of a field, without characters that would end it."""
    return _UNNAMED.sub("_", str(name)) or "_"


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3f}"
    text = one_line(_cut(str(value)))
    if not _UNPLAIN.search(text):
        return text
    quoted = text.replace('"', r"\"")
    return f'"{quoted}"'


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return f"{moment.isoformat(timespec='milliseconds')[:-6]}Z"


def _traceback(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    return _cut(formatter.formatException(record.exc_info), "\n") if record.exc_info else ""


def _cut(text: str, between: str = " ") -> str:
    """Return the beginning and the end of a long text.

    What others have sent may stand in an error. To make ten million characters of it fit for a line
    takes seconds, in which the event loop of a worker does nothing else.
    """
    if len(text) <= LONGEST:
        return text
    half = LONGEST // 2
    left_out = len(text) - 2 * half
    told = f"{between}… {left_out:,} characters left out …{between}"
    return f"{text[:half]}{told}{text[-half:]}"
