"""What a log line holds, for people and for machines."""

from __future__ import annotations

import io
import json
import logging
import re
import sys
from typing import Any

import pytest
from hypothesis import given, strategies as st

from mutirao.cli.logs import configure
from mutirao.cli.output import say
from mutirao.log import log
from mutirao.model.brokers.message import MessageId
from mutirao.telemetry.logs import JsonFormatter, LineHandler, LogfmtFormatter, TextFormatter
from mutirao.telemetry.logs.formats import LONGEST

FIELDS: dict[str, Any] = {
    "job": 7,
    "task": "send",
    "queue": "mail",
    "attempt": 2,
    "run": 3,
    "ms": 12.341,
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
    before = (root.level, own.level, list(root.handlers), log.of_children)
    try:
        configure("text", level)
        effective = logging.getLogger("botocore.endpoint").getEffectiveLevel()
        assert (own.getEffectiveLevel(), effective) == (ours, others)
        assert [each.level for each in root.handlers if each not in before[2]] == [ours]
    finally:
        root.setLevel(before[0])
        own.setLevel(before[1])
        root.handlers, log.of_children = before[2:]


def test_text() -> None:
    """Time, level, logger, message, fields."""
    assert TextFormatter().format(record(**FIELDS)) == (
        "2023-11-14T22:13:20.250Z INFO    mutirao: job 7 ended"
        " [job=7 task=send queue=mail attempt=2 run=3 ms=12.341]"
    )
    assert TextFormatter().format(record()).endswith("mutirao: job 7 ended")
    known = record(event="attempt.ended", worker=5)  # and the error, which the message has
    known.error = "Busy"
    assert TextFormatter().format(known).endswith("mutirao: job 7 ended")


def test_json() -> None:
    """One object on one line, with the fields as they are."""
    line = JsonFormatter().format(record(**FIELDS))
    assert "\n" not in line
    assert json.loads(line) == {
        "time": "2023-11-14T22:13:20.250Z",
        "level": "INFO",
        "event": "log",
        "logger": "mutirao",
        "message": "job 7 ended",
        **FIELDS,
    }


def test_json_of_an_event() -> None:
    """What happened has a name, an error is one line, and an id is as people write it."""
    id = MessageId.of("0190c4d0b7a37e2e8f6a2f6d5b0c1d2e")
    made = record(error=True, event="attempt.ended", job=id)
    found = json.loads(JsonFormatter().format(made))
    assert (found["event"], found["job"]) == ("attempt.ended", str(id))
    assert found["error"] == "ValueError: no such order"
    assert found["traceback"].startswith("Traceback (most recent call last)")


@pytest.mark.parametrize("formatter", [JsonFormatter(), LogfmtFormatter()])
def test_nothing_takes_the_place_of_a_stable_field(formatter: logging.Formatter) -> None:
    """A handler's own fields of those names get an underscore."""
    made = record(time="never", level="FATAL", logger="me", traceback="x")
    found = formatter.format(made)
    told = json.loads(found) if found[0] == "{" else logfmt(found)
    assert told["time"].startswith("2023-")
    assert (told["level"], told["level_"], told["logger"]) == ("INFO", "FATAL", "mutirao")


def test_logfmt() -> None:
    """The same fields; what is no plain word is quoted, and an object is JSON."""
    line = LogfmtFormatter().format(record(**FIELDS, tenant="", of={"a": [1]}, late=None))
    assert line == (
        'time=2023-11-14T22:13:20.250Z level=INFO event=log logger=mutirao message="job 7 ended"'
        " job=7 task=send queue=mail attempt=2 run=3 ms=12.341"
        r' tenant="" of="{\"a\": [1]}" late=null'
    )


def test_json_of_no_number() -> None:
    """NaN and infinities are no JSON, which a reader would refuse with the whole line."""
    circle: list[Any] = []
    circle.append(circle)
    made = record(rate=float("nan"), told={"of": float("-inf"), (1, 2): "x"}, circle=circle)
    found = json.loads(JsonFormatter().format(made), parse_constant=pytest.fail)
    assert (found["rate"], found["told"]) == ("nan", {"of": "-inf", "(1, 2)": "x"})


def test_json_of_half_a_character() -> None:
    """A row or a handler may bring one: the line is written all the same."""
    line = JsonFormatter().format(record(task="send \ud83d"))
    assert json.loads(line.encode())["task"] == "send \ud83d"


def test_json_of_what_json_does_not_know() -> None:
    """A field of any type is shown as text rather than lost."""
    assert json.loads(JsonFormatter().format(record(path=object)))["path"] == str(object)


@pytest.mark.parametrize("formatter", [TextFormatter(), JsonFormatter(), LogfmtFormatter()])
def test_an_error_keeps_its_traceback(formatter: logging.Formatter) -> None:
    """It is there, and in JSON on the same line."""
    said = formatter.format(record(error=True))
    assert "Traceback (most recent call last)" in said
    assert "ValueError: no such order" in said
    assert isinstance(formatter, TextFormatter) or "\n" not in said


NASTY = "q\n2026-11-27T00:00:00.000Z CRITICAL mutirao: forged\r\x1b[2J\x85\u2028\u202e\x00\ud800"


@pytest.mark.parametrize("formatter", [TextFormatter(), JsonFormatter(), LogfmtFormatter()])
def test_texts_are_cut(formatter: logging.Formatter) -> None:
    """Whatever others have sent stands in an error: a line has its beginning and its end."""
    text = "begins" + "é\n\x1b" * 40_000 + "ends"
    made = record(tenant=text)
    vars(made).update(error=text, msg=text, args=())
    made.exc_info = (ValueError, ValueError(text), None)
    said = formatter.format(made)
    assert len(said) < 4 * 4 * LONGEST
    assert said.count("characters left out") == (3 if isinstance(formatter, TextFormatter) else 4)
    assert all(said.count(each) >= 3 for each in ("begins", "ends"))


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


@given(st.text(), st.text(min_size=1))
def test_text_of_any_kind(text: str, name: str) -> None:
    """A record is one line in each format, whatever it says, and machines read the same in it."""
    made = record(task=text)
    made.msg, made.args, made.name = "%s", (text,), text
    vars(made).setdefault(name, text)
    [line] = lines(made)
    read = JsonFormatter().format(made), LogfmtFormatter().format(made)
    assert all(each.isprintable() for each in (line, *read))
    for found in (json.loads(read[0]), logfmt(read[1])):
        assert (found["message"], found["task"], found["logger"]) == (text, text, text)


WORD = re.compile(r'([^\s="]+)=("(?:[^"\\]|\\.)*"|[^\s="]*)(?: |$)')


def logfmt(line: str) -> dict[str, Any]:
    """Read a line as readers of logfmt do: names, and values in quotes as JSON has them."""
    found, at = {}, 0
    while at < len(line):
        word = WORD.match(line, at)
        assert word, line[at:]
        value = word[2]
        found[word[1]] = json.loads(value) if value.startswith('"') else value
        at = word.end()
    return found


class _Unsayable:
    def __str__(self) -> str:
        raise ValueError(NASTY)


@pytest.mark.parametrize("formatter", [TextFormatter(), JsonFormatter(), LogfmtFormatter()])
def test_a_record_that_cannot_be_written(formatter: logging.Formatter) -> None:
    """It is replaced by a line that says so; `logging` would print a traceback in between."""
    stream = io.StringIO()
    handler = LineHandler(formatter, stream)
    unfit = record()
    unfit.args = ("seven", 8)
    handler.handle(unfit)
    handler.handle(record(of=_Unsayable()))
    first, second = stream.getvalue().removesuffix("\n").split("\n")
    assert first.isprintable()
    assert "a record of mutirao cannot be written: TypeError: not all arguments" in first
    assert second.isprintable()
    assert "ValueError" in second


def test_a_line_of_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    """What a command says of a name stays one line, too, on either stream."""
    say(f"schedule {NASTY} is paused")
    say(f"mutirao: {NASTY}", error=True)
    said, refused = capsys.readouterr()
    for lines in (said, refused):
        assert lines.count("\n") == 1
        assert lines.removesuffix("\n").isprintable()
