"""Waits between attempts as data: those of an endpoint, or of a subscription."""

from collections.abc import Iterable
from datetime import timedelta
from typing import TypeGuard

from mutirao.errors import MutiraoError

MAX_WAITS, LONGEST_WAIT = 100, 30 * 86_400.0  # between attempts, and seconds of each


def waits_in(given: object, error: type[MutiraoError]) -> tuple[float, ...]:
    """Return the seconds between attempts, given as numbers or `timedelta`s; raise `error`."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise error(f"retry is {given!r}; give seconds in a list, such as [5, 60, 3600]")
    waits = tuple(each.total_seconds() if isinstance(each, timedelta) else each for each in given)
    wrong = [each for each in waits if not (is_number(each) and 0 <= each <= LONGEST_WAIT)]
    if wrong or len(waits) > MAX_WAITS:
        one = f", of which one is {wrong[0]!r}" if wrong else ""
        raise error(
            f"retry has {len(waits)} waits{one}; give up to {MAX_WAITS}, of 0 to"
            f" {LONGEST_WAIT:,.0f} seconds each, or none for one attempt"
        )
    return waits


def wait_after(attempt: int, waits: tuple[float, ...]) -> float:
    """Return the seconds to wait after an attempt; the last wait is repeated."""
    return waits[min(attempt, len(waits)) - 1] if waits else 0.0


def is_number(value: object) -> TypeGuard[float]:
    """Return whether a value is a number, which True and False are not here."""
    return isinstance(value, int | float) and not isinstance(value, bool)
