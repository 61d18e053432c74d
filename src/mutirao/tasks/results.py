"""Results: the conversion from what a handler returns to what is stored.

Nothing is stored unless it was requested: by a task with `keep_result`, or by a later step.
"""

from datetime import timedelta
from math import inf
from typing import Any

from mutirao.errors import InvalidResult, InvalidTask
from mutirao.model.jobs.job import KeptResult
from mutirao.model.jobs.retry import MAX_WAIT, seconds
from mutirao.tasks.signatures.conversion import UNFIT, to_json

MAX_RESULT = 1 << 20  # bytes of JSON


def kept_result(task: str, value: Any, keep_for: float) -> KeptResult:
    """Return the stored form of a result, for `keep_for` seconds (inf: as long as the history).

    Raises:
        InvalidResult: JSON cannot represent it, or it is too large.
    """
    try:
        text = to_json(value)
    except UNFIT as unfit:
        raise InvalidResult(
            f"the result of task {task!r} is kept, and cannot be written as JSON: {unfit}; return"
            " plain data, such as an id"
        ) from None
    size = len(text.encode())
    if size > MAX_RESULT:
        raise InvalidResult(
            f"the result of task {task!r} takes too many bytes of JSON; at most {MAX_RESULT:,} are"
            f" kept. Store the data and return its key\nit takes {size:,} bytes"
        )
    return KeptResult(text, None if keep_for == inf else keep_for)


def keeping(given: bool | float | timedelta) -> float | None:
    """Return the seconds that `keep_result` requests: None for False, inf for True.

    Raises:
        InvalidTask: it is neither a bool nor a valid duration.
    """
    if isinstance(given, bool):
        return inf if given else None
    number = isinstance(given, int | float | timedelta)
    if not number or not 0 < seconds(given) <= MAX_WAIT:
        raise InvalidTask(
            f"keep_result is {given!r}; give True (as long as the job's history), or more than 0"
            " seconds, as a number or a timedelta"
        )
    return seconds(given)
