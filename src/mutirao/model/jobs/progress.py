"""Checks the progress that a handler reports: finite numbers."""

from math import isfinite, nan

from mutirao.errors import InvalidProgress


def finite(name: str, value: float) -> float:
    """Return a number that a handler reported as `name`; raise InvalidProgress if it is none."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = nan
    if not isfinite(number):
        raise InvalidProgress(f"progress was given {name}={value!r:.100}; give a finite number")
    return number
