"""Splits a delay into the periods of the delay queues. Pure functions.

A delay queue has one period for all of its messages, so that none waits behind a longer one. A
delay is a sum of periods: after each, the consumer that gets the message publishes it to the next
queue, or hands it out if the delay is over.
"""

from typing import NamedTuple

PERIODS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 3600.0)
"""Seconds. 1, 2 and 5 of each power of ten: a digit takes at most three of them."""

SHORTEST = PERIODS[0]


class DelayStep(NamedTuple):
    """The next period of a delay, in seconds, and the rest after it."""

    period: float
    rest: float


def first_step(seconds: float) -> DelayStep:
    """Return the first step of a delay, which is more than 0.

    The delay is never shorter than asked for: three digits of it count, the last rounded up, and
    less than a tenth of a second counts as one.
    """
    return next_step(_rounded(seconds))


def next_step(rest: float) -> DelayStep:
    """Return the next step of the rest of a delay, which is more than 0."""
    fitting = [each for each in PERIODS if each <= rest + SHORTEST / 100]
    period = fitting[-1] if fitting else SHORTEST
    left = round(rest - period, 3)
    return DelayStep(period, left if left >= SHORTEST / 2 else 0.0)


def name_of(period: float) -> str:
    """Return a period as part of a queue's name: `0.1`, `20`."""
    return f"{period:g}"


def _rounded(seconds: float) -> float:
    tenths = max(1, -int(-seconds * 10 // 1))
    unit = 1
    while tenths // unit >= 1000:
        unit *= 10
    return -(-tenths // unit) * unit / 10
