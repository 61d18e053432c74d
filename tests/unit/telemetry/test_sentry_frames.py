"""Frames of events that are read from a text, in which anybody's message may stand."""

from __future__ import annotations

import os
from pathlib import Path

from mutirao.model.jobs.outcome import Outcome
from mutirao.model.jobs.states import OutcomeKind
from mutirao.telemetry.sentry_events import _exception

TRACEBACK = """what they sent: {message}

Traceback (most recent call last):
  File "{file}", line 1, in send
    post(to)
  File "/app/shop.py", line {line}, in post
ValueError: what they sent"""


def frames(**given: str) -> list[dict[str, object]]:
    """Return the frames of the text of an error."""
    said = TRACEBACK.format(**({"message": "no", "line": "2"} | given))
    outcome = Outcome(OutcomeKind.DEAD, error_type="ValueError", error=said)
    found: list[dict[str, object]] = _exception(outcome)["stacktrace"]["frames"]
    return found


def test_no_file_is_opened(tmp_path: Path) -> None:
    """A message that looks like a traceback sends no secret away, and a pipe hangs nothing."""
    secret, pipe = tmp_path / ".env", tmp_path / "pipe"
    secret.write_text("PASSWORD=hunter2\n")
    os.mkfifo(pipe)
    for file in (secret, pipe):
        first, _ = frames(file=str(file))
        assert (first["filename"], first["context_line"]) == (str(file), "post(to)")


def test_what_is_no_line() -> None:
    """The event is sent all the same."""
    [found] = frames(file="shop.py", line="9" * 5_000)
    assert found["lineno"] == 1
