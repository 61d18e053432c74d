"""What a log line holds, for people and for machines."""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mutirao.cli.logs import JsonFormatter, TextFormatter, configure
from mutirao.cli.output import say

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


def test_json_of_half_a_character() -> None:
    """A row or a handler may bring one: the line is written all the same."""
    line = JsonFormatter().format(record(task="send \ud83d"))
    assert json.loads(line.encode())["task"] == "send \ud83d"


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


NASTY = "q\n2026-11-27T00:00:00.000Z CRITICAL mutirao: forged\r\x1b[2J\x85\u2028\u202e\x00\ud800"


def lines(record: logging.LogRecord) -> list[str]:
    """Return what a log has of a record, by what any reader may take for the end of a line."""
    return TextFormatter().format(record).splitlines()


@pytest.mark.parametrize("place", ["message", "field", "logger"])
def test_a_name_forges_no_line(place: str) -> None:
    """What is not printable is escaped, wherever it stands."""
    made = record(queue=NASTY) if place == "field" else record()
    if place == "message":
        made.msg, made.args = "job of %s ended", (NASTY,)
    if place == "logger":
        made.name = NASTY
    [line] = lines(made)
    assert line.isprintable()
    assert r"q\n2026" in line
    assert r"\x1b[2J\x85\u2028\u202e\x00\ud800" in line


def test_a_field_forges_no_field() -> None:
    """A value that could end its field is quoted."""
    found = TextFormatter().format(record(task='a queue=mail] "', tenant="", job=7))
    assert found.endswith(r'[task="a queue=mail] \"" tenant= job=7]')


def test_an_error_forges_no_line() -> None:
    """The lines of a traceback are indented, and what is not printable in them is escaped."""
    try:
        raise ValueError(NASTY)
    except ValueError:
        made = record()
        made.exc_info = sys.exc_info()
    first, *more = lines(made)
    assert first.endswith("job 7 ended")
    assert all(each.startswith("  ") and each.isprintable() for each in more)
    assert more[-1].startswith("  2026-11-27T00:00:00.000Z CRITICAL mutirao: forged\\r\\x1b")


@given(st.text())
def test_text_of_any_kind(text: str) -> None:
    """A record is one line, whatever it says."""
    made = record(task=text)
    made.msg, made.args = "%s", (text,)
    [line] = lines(made)
    assert line.isprintable()


def test_a_line_of_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    """What a command says of a name stays one line, too, on either stream."""
    say(f"schedule {NASTY} is paused")
    say(f"mutirao: {NASTY}", error=True)
    said, refused = capsys.readouterr()
    for lines in (said, refused):
        assert lines.count("\n") == 1
        assert lines.removesuffix("\n").isprintable()
