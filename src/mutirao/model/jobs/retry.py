"""Retry policies, and the signals that a handler raises to decide for itself.

Policies are pure functions of the attempt's number and its error. `Retry` is both: raised by a
handler it requests another attempt, and its class methods build the policies for
`@app.task(retry=...)`.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from math import inf

DEFAULT_MAX_ATTEMPTS = 10
FIRST_YEAR, LAST_YEAR = 2, 9_998  # that `datetime` can represent in every time zone
SECONDS_PER_DAY = 86_400.0
MIN_SNOOZE = 1.0  # seconds; without a minimum, one job made 72 attempts a second
MANY = 1_000  # attempts after which the wait of no policy grows any more
MAX_WAIT = 1e10  # seconds, about 300 years: databases have a limit

BackoffFunction = Callable[[int, BaseException | None], float]
ExceptionTypes = tuple[type[BaseException], ...]


def seconds(value: float | timedelta) -> float:
    """Return a duration in seconds, given as a number or a `timedelta`.

    An integer that is too large for a float is infinite: bounds refuse both.
    """
    if isinstance(value, timedelta):
        return value.total_seconds()
    try:
        return float(value)
    except OverflowError:
        return inf if value > 0 else -inf


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """The number of attempts of a job, and the wait between them.

    Parameters:
        max_attempts: executions in all, the first included; at least 1.
        backoff: called with the number of the attempt that failed (1, 2, …) and its error; returns
            the wait in seconds.
        only: if not empty, all other exceptions make the job dead at once.
        never: these exceptions make the job dead at once.
        by_type: policies for particular exceptions; the first match replaces this policy.
        apart: whether jobs of a fair task leave the turns once they are retried, and wait by time.

    Raises:
        ValueError: `max_attempts` is less than 1.
    """

    max_attempts: int
    backoff: BackoffFunction
    only: ExceptionTypes = ()
    never: ExceptionTypes = ()
    by_type: tuple[tuple[type[BaseException], "RetryPolicy"], ...] = ()
    apart: bool = False

    def __post_init__(self) -> None:
        if self.max_attempts < 1:
            raise ValueError(
                f"max_attempts is {self.max_attempts}; it counts the first execution too, so give"
                " 1 (never retry) or more"
            )

    @property
    def most_attempts(self) -> int:
        """The largest number of attempts that any error allows, by this policy or `by_type`."""
        return max(self.max_attempts, *(policy.max_attempts for _, policy in self.by_type), 1)

    def for_error(self, error: BaseException | None) -> "RetryPolicy":
        """Return the policy that applies to this error: one of `by_type`, or this one."""
        matches = (policy for kind, policy in self.by_type if isinstance(error, kind))
        return next(matches, self)

    def retries(self, error: BaseException | None) -> bool:
        """Return whether a job may be tried again after this error."""
        if isinstance(error, self.never):
            return False
        return error is None or not self.only or isinstance(error, self.only)

    def delay(self, attempt: int, error: BaseException | None = None) -> float:
        """Return the seconds to wait after attempt number `attempt` failed with `error`.

        Raises:
            ValueError: `backoff` returned something that is not a number, or more than 300 years.
        """
        return max(0.0, _at_most(self.backoff(attempt, error), "the retry policy's backoff"))

    def longest_wait(self) -> float:
        """Return the longest wait in seconds, as far as it can be known without an error."""
        longest = 0.0
        for policy in (self, *(each for _, each in self.by_type)):
            for attempt in range(1, min(policy.max_attempts, MANY)):
                try:
                    longest = max(longest, policy.delay(attempt))
                except Exception:  # noqa: BLE001 (a function of the user's that needs the error)
                    break
        return longest


class Signal(Exception):
    """An exception by which a handler sets the outcome of its attempt; not an error."""


class Retry(Signal):
    """A request to try again later; counts as a failed attempt. Its static methods make policies.

    Parameters:
        after: seconds or `timedelta` to wait; None: the task's policy decides.
        at: an aware datetime instead of `after`.
        reason: recorded in the history as the attempt's error.

    Raises:
        ValueError: `after` is negative or too long, or `at` is naive or too far away.
    """

    def __init__(
        self,
        after: float | timedelta | None = None,
        *,
        at: datetime | None = None,
        reason: str = "the handler asked for a retry",
    ) -> None:
        super().__init__(reason)
        self.after = None if after is None else _not_negative(seconds(after), "Retry(after=…)")
        self.at = _aware(at, "Retry(at=…)")

    @staticmethod
    def exponential(
        max_attempts: int = DEFAULT_MAX_ATTEMPTS,
        *,
        base: float | timedelta = 5.0,
        factor: float = 2.0,
        maximum: float | timedelta = SECONDS_PER_DAY,
        jitter: float = 0.1,
        only: ExceptionTypes = (),
        never: ExceptionTypes = (),
        by_type: dict[type[BaseException], RetryPolicy] | None = None,
    ) -> RetryPolicy:
        """Wait `base * factor ** (attempt - 1)` seconds, at most `maximum`, plus or minus `jitter`.

        `jitter` is a fraction of the wait: 0.1 spreads it evenly over ±10 %, so that jobs which
        failed together are not retried together.
        """
        first, most = seconds(base), seconds(maximum)

        def backoff(attempt: int, error: BaseException | None) -> float:
            wait = grown(first, attempt - 1, most, factor)
            return wait * random.uniform(1 - jitter, 1 + jitter)

        return RetryPolicy(max_attempts, backoff, only, never, _pairs(by_type))

    @staticmethod
    def linear(
        max_attempts: int = DEFAULT_MAX_ATTEMPTS,
        *,
        interval: float | timedelta = 60.0,
        only: ExceptionTypes = (),
        never: ExceptionTypes = (),
        by_type: dict[type[BaseException], RetryPolicy] | None = None,
    ) -> RetryPolicy:
        """Wait attempt x `interval`: one interval, then two, then three."""
        step = seconds(interval)
        return RetryPolicy(max_attempts, lambda n, _: n * step, only, never, _pairs(by_type))

    @staticmethod
    def fixed(
        max_attempts: int = DEFAULT_MAX_ATTEMPTS,
        *,
        interval: float | timedelta = 60.0,
        only: ExceptionTypes = (),
        never: ExceptionTypes = (),
        by_type: dict[type[BaseException], RetryPolicy] | None = None,
    ) -> RetryPolicy:
        """Wait the same `interval` every time."""
        wait = seconds(interval)
        return RetryPolicy(max_attempts, lambda n, _: wait, only, never, _pairs(by_type))

    @staticmethod
    def delays(
        *waits: float | timedelta,
        only: ExceptionTypes = (),
        never: ExceptionTypes = (),
        by_type: dict[type[BaseException], RetryPolicy] | None = None,
    ) -> RetryPolicy:
        """Wait for these durations, one after another; there is one attempt more than waits."""
        steps = [seconds(wait) for wait in waits]
        last = len(steps) - 1

        def backoff(attempt: int, error: BaseException | None) -> float:
            return steps[min(attempt - 1, last)] if steps else 0.0

        return RetryPolicy(len(steps) + 1, backoff, only, never, _pairs(by_type))

    @staticmethod
    def by(
        function: Callable[[int, BaseException | None], float | timedelta],
        max_attempts: int = DEFAULT_MAX_ATTEMPTS,
        *,
        only: ExceptionTypes = (),
        never: ExceptionTypes = (),
        by_type: dict[type[BaseException], RetryPolicy] | None = None,
    ) -> RetryPolicy:
        """Call `function(attempt, error)` for the wait, in seconds or as a `timedelta`."""
        return RetryPolicy(
            max_attempts, lambda n, e: seconds(function(n, e)), only, never, _pairs(by_type)
        )

    @staticmethod
    def never() -> RetryPolicy:
        """Try once; a failure makes the job dead."""
        return RetryPolicy(1, lambda n, _: 0.0)


def policy_of(retry: RetryPolicy | None, max_attempts: int | None) -> RetryPolicy:
    """Return a task's policy: exponential unless given, with `max_attempts` replaced if given."""
    policy = Retry.exponential() if retry is None else retry
    return policy if max_attempts is None else replace(policy, max_attempts=max_attempts)


def grown(first: float, times: int, most: float, factor: float = 2.0) -> float:
    """Return a wait that began with `first` seconds and has grown some times; `most` at most."""
    # A float power overflows near 1000; the cap is reached long before.
    return min(most, first * factor ** min(times, 64))


class Snooze(Signal):
    """A request to run the job later; does not count as an attempt.

    Parameters:
        after: seconds or `timedelta` until the job is ready again; at least one second, because
            each snooze is an attempt row in the history.
        at: an aware datetime instead of `after`.
        reason: recorded in the history.

    Raises:
        ValueError: `after` is negative or too long, or `at` is naive or too far away.
    """

    def __init__(
        self,
        after: float | timedelta = 0.0,
        *,
        at: datetime | None = None,
        reason: str = "snoozed by its handler",
    ) -> None:
        super().__init__(reason)
        self.after = max(MIN_SNOOZE, _not_negative(seconds(after), "Snooze(…)"))
        self.at = _aware(at, "Snooze(at=…)")


class Dead(Signal):
    """A declaration that this job can never succeed; there are no further attempts."""

    def __init__(self, reason: str = "declared dead by its handler") -> None:
        super().__init__(reason)


class Cancel(Signal):
    """A declaration that this job is no longer wanted; no further attempts, and it is not dead.

    Parameters:
        reason: recorded in the history.
        schedule: pause the schedule that made the job, in the commit that ends the job. A job that
            no schedule made is only cancelled.
    """

    def __init__(self, reason: str = "cancelled by its handler", *, schedule: bool = False) -> None:
        super().__init__(reason)
        self.schedule = schedule


def _pairs(
    by_type: dict[type[BaseException], RetryPolicy] | None,
) -> tuple[tuple[type[BaseException], RetryPolicy], ...]:
    return tuple((by_type or {}).items())


def _not_negative(value: float, where: str) -> float:
    if not value >= 0:  # also refuses NaN
        raise ValueError(f"{where} was given {value} seconds; give 0 or more")
    return _at_most(value, where)


def _at_most(value: float, where: str) -> float:
    if not value <= MAX_WAIT:  # also refuses NaN
        raise ValueError(f"{where} was given {value} seconds; give at most {MAX_WAIT:g}")
    return value


def _aware(at: datetime | None, where: str) -> datetime | None:
    if at is None:
        return None
    if at.tzinfo is None:
        raise ValueError(f"{where} was given the naive datetime {at}; give one with a time zone")
    if not FIRST_YEAR <= at.year <= LAST_YEAR:
        raise ValueError(f"{where} was given {at}; give a year from {FIRST_YEAR} to {LAST_YEAR}")
    return at
