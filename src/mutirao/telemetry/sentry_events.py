"""The event of an attempt that failed: of its exception, or of its text.

An exception of a child process is not available here. The engine keeps its type, its message and
its traceback as text, from which the frames are read. A message may contain anything, and look like
a traceback: no file that it names is opened.
"""

import re
from pathlib import Path
from typing import Any, Literal

import sentry_sdk
from sentry_sdk.utils import event_from_exception

from mutirao.model.jobs.job import Job
from mutirao.model.jobs.outcome import Outcome
from mutirao.model.jobs.states import OutcomeKind

MECHANISM = {"type": "mutirao", "handled": False}
_FRAME = re.compile(
    r'^  File "(?P<file>[^"\n]+)", line (?P<line>\d{1,9}), in (?P<name>.+)$'
    r"(?:\n    (?P<code>.+)$)?",
    re.M | re.A,
)
_OURS = str(Path(__file__).parents[1])
_BEGINS = "\n\nTraceback (most recent call last)"


def event_of(
    job: Job, outcome: Outcome, error: BaseException | None, level: Literal["error", "warning"]
) -> tuple[Any, Any]:
    """Return the event of a failed attempt, and the hints of its processors.

    It is grouped with others of the same exception and the same task.

    Parameters:
        error: the exception, if it is available.
    """
    if error is not None:
        options = sentry_sdk.get_client().options
        exc_info = (type(error), error, error.__traceback__)
        event, hint = event_from_exception(exc_info, options, MECHANISM)
    else:
        event, hint = {"exception": {"values": [_exception(outcome)]}}, {}
    event["level"] = level
    event["fingerprint"] = ["{{ default }}", job.task]
    event["transaction"] = job.task
    return event, hint


def is_our_death(hint: Any) -> bool:
    """Return whether an event is made of the line that the engine logs about a death."""
    record = (hint or {}).get("log_record")
    if record is None or not str(record.name).startswith("mutirao"):
        return False
    return getattr(record, "outcome", None) == str(OutcomeKind.DEAD)


def _exception(outcome: Outcome) -> dict[str, Any]:
    said, _, stack = (outcome.error or "").partition(_BEGINS)
    module, _, kind = (outcome.error_type or "Dead").rpartition(".")
    found: dict[str, Any] = {"type": kind, "value": said, "mechanism": MECHANISM}
    if module:
        found["module"] = module
    frames = [
        _frame(*each.group("file", "line", "name", "code")) for each in _FRAME.finditer(stack)
    ]
    if frames:
        found["stacktrace"] = {"frames": frames}
    return found


def _frame(file: str, line: str, name: str, code: str | None) -> dict[str, Any]:
    return {
        "filename": file,
        "abs_path": file,
        "lineno": int(line),
        "function": name,
        "context_line": code or "",
        "in_app": "site-packages" not in file and not file.startswith(_OURS),
    }
