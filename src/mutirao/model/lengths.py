"""Lengths of time as people write them: 90, 90s, 15m, 2h, 7d or 1w."""

import re
from datetime import timedelta

from mutirao.model.jobs.retry import MAX_WAIT

_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_LENGTH = re.compile(rf"(\d+(?:\.\d+)?)([{''.join(_UNITS)}]?)")


def is_length(text: str) -> bool:
    """Return whether a text has the form of a length of time."""
    return _LENGTH.fullmatch(text) is not None


def length(text: str) -> timedelta:
    """Return the length of time in a text; without a unit, it is in seconds.

    Raises:
        ValueError: it is no length of time, or too long.
    """
    found = _LENGTH.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no length of time; write 90, 90s, 15m, 2h or 7d")
    seconds = float(found[1]) * _UNITS[found[2] or "s"]
    if seconds > MAX_WAIT:
        raise ValueError(f"{text!r} is too long; give at most {MAX_WAIT / 86_400:.0f}d")
    return timedelta(seconds=seconds)
