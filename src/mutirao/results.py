"""Results: from what a handler returns to what is stored, and back.

Nothing is stored unless somebody asked for it: a task with `keep_result`, or a later step.
"""

from datetime import timedelta
from math import inf
from typing import Any

from mutirao.arguments import UNFIT, to_json
from mutirao.errors import InvalidResult, InvalidTask
from mutirao.job import Kept
from mutirao.retry import LONGEST_WAIT, seconds

MAX_RESULT = 1 << 20  # bytes of JSON


def kept(task: str, value: Any, keep_for: float) -> Kept:
    """Return what is stored of a result, for so many seconds (inf: as long as the job's history).

    Raises:
        InvalidResult: it has no form in JSON, or takes too many bytes of it.
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
            f"the result of task {task!r} takes {size:,} bytes of JSON; at most {MAX_RESULT:,} are"
            " kept. Store the data and return its key"
        )
    return Kept(text, None if keep_for == inf else keep_for)


def keeping(given: bool | float | timedelta) -> float | None:
    """Return the seconds for which `keep_result` asks: None for not at all, inf for True."""
    if isinstance(given, bool):
        return inf if given else None
    number = isinstance(given, int | float | timedelta)
    if not number or not 0 < seconds(given) <= LONGEST_WAIT:
        raise InvalidTask(
            f"keep_result is {given!r}; give True (as long as the job's history), or more than 0"
            " seconds, as a number or a timedelta"
        )
    return seconds(given)
