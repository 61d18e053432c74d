"""What a log line holds, for people and for machines."""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

import pytest

from mutirao.cli.logs import JsonFormatter, TextFormatter, configure

FIELDS: dict[str, Any] = {
    "job": 7,
    "task": "send",
    "queue": "mail",
    "attempt": 2,
    "run": 3,
    "duration": 0.01234,
}


def record(*, error: bool = False, **extra: Any) -> logging.LogRecord:
    """Return a record made as `log.info(..., extra=...)` makes it."""
    info = None
    if error:
        try:
            raise ValueError("no such order")
        except ValueError:
            info = sys.exc_info()
    made = logging.getLogger("mutirao").makeRecord(
        "mutirao", logging.INFO, "file.py", 1, "job %s ended", (7,), info, extra=extra
    )
    made.created = 1_700_000_000.25
    return made


@pytest.mark.parametrize(
    ("level", "ours", "others"),
    [
        ("debug", logging.DEBUG, logging.INFO),
        ("info", logging.INFO, logging.INFO),
        ("error", logging.ERROR, logging.ERROR),
    ],
)
def test_debug_is_ours_alone(level: str, ours: int, others: int) -> None:
    """At DEBUG botocore logs the bodies of messages, in which arguments stand."""
    root, own = logging.getLogger(), logging.getLogger("mutirao")
    before = (root.level, own.level, list(root.handlers))
    try:
        configure("text", level)
        effective = logging.getLogger("botocore.endpoint").getEffectiveLevel()
        assert (own.getEffectiveLevel(), effective) == (ours, others)
    finally:
        root.setLevel(before[0])
        own.setLevel(before[1])
        root.handlers = before[2]


def test_text() -> None:
    """Time, level, logger, message, fields."""
    assert TextFormatter().format(record(**FIELDS)) == (
        "2023-11-14T22:13:20.250Z INFO    mutirao: job 7 ended"
        " [job=7 task=send queue=mail attempt=2 run=3 duration=0.012]"
    )
    assert TextFormatter().format(record()).endswith("mutirao: job 7 ended")


def test_json() -> None:
    """One object on one line, with the fields as they are."""
    line = JsonFormatter().format(record(**FIELDS))
    assert "\n" not in line
    assert json.loads(line) == {
        "time": "2023-11-14T22:13:20.250Z",
        "level": "INFO",
        "logger": "mutirao",
        "message": "job 7 ended",
        **FIELDS,
    }


def test_json_of_what_json_does_not_know() -> None:
    """A field of any type is shown as text rather than lost."""
    assert json.loads(JsonFormatter().format(record(path=object)))["path"] == str(object)


@pytest.mark.parametrize("formatter", [TextFormatter(), JsonFormatter()])
def test_an_error_keeps_its_traceback(formatter: logging.Formatter) -> None:
    """It is there, and in JSON on the same line."""
    said = formatter.format(record(error=True))
    assert "Traceback (most recent call last)" in said
    assert "ValueError: no such order" in said
    assert isinstance(formatter, TextFormatter) or "\n" not in said
