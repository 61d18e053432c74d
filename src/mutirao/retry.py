"""When a failed job runs again, and what a handler may raise to decide for itself.

Policies are pure functions of the attempt's number and its error. `Retry` is both: raised by a
handler it asks for another attempt, and its class methods build the policies given to
`@app.task(retry=...)`.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

DEFAULT_MAX_ATTEMPTS = 10
FIRST_YEAR, LAST_YEAR = 2, 9_998  # of what `datetime` holds, in whatever time zone it is read
DAY = 86_400.0
LEAST_SNOOZE = 1.0  # seconds; without any, one job made 72 attempts a second
LONGEST_WAIT = 1e10  # seconds, some 300 years: databases end somewhere

Backoff = Callable[[int, BaseException | None], float]
ExceptionTypes = tuple[type[BaseException], ...]


def seconds(value: float | timedelta) -> float:
    """Return a length of time in seconds, whether it came as a number or a `timedelta`."""
    return value.total_seconds() if isinstance(value, timedelta) else float(value)


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often a job is tried and how long it waits in between.

    Parameters:
        max_attempts: executions in all, the first included; at least 1.
        backoff: called with the number of the attempt that failed (1, 2, …) and its error;
            returns the wait in seconds.
        only: when not empty, other exceptions make the job dead at once.
        never: these exceptions make the job dead at once.
        by_type: policies for particular exceptions; the first match wins over this one.
    """

    max_attempts: int
    backoff: Backoff
    only: ExceptionTypes = ()
    never: ExceptionTypes = ()
    by_type: tuple[tuple[type[BaseException], "RetryPolicy"], ...] = ()

    def __post_init__(self) -> None:
        if self.max_attempts < 1:
            raise ValueError(
                f"max_attempts is {self.max_attempts}; it counts the first execution too, so give"
                " 1 (never retry) or more"
            )

    @property
    def most_attempts(self) -> int:
        """The executions that some error would allow: the most of this one and of `by_type`."""
        return max(self.max_attempts, *(policy.max_attempts for _, policy in self.by_type), 1)

    def for_error(self, error: BaseException | None) -> "RetryPolicy":
        """Return the policy that decides about this error: one of `by_type`, or this one."""
        matches = (policy for kind, policy in self.by_type if isinstance(error, kind))
        return next(matches, self)

    def retries(self, error: BaseException | None) -> bool:
        """Tell whether this error may be tried again at all."""
        if isinstance(error, self.never):
            return False
        return error is None or not self.only or isinstance(error, self.only)

    def delay(self, attempt: int, error: BaseException | None = None) -> float:
        """Return the seconds to wait after attempt number `attempt` failed with `error`.

        Raises:
            ValueError: `backoff` returned no number, or more than 300 years.
        """
        return max(0.0, _at_most(self.backoff(attempt, error), "the retry policy's backoff"))


class Signal(Exception):
    """What a handler raises to say how its attempt ended; not an error of the handler."""


class Retry(Signal):
    """Raised: try again later; counts as a failed attempt. On the class: the retry policies.

    Parameters:
        after: seconds or `timedelta` to wait; None leaves it to the task's policy.
        at: an aware datetime instead of `after`.
        reason: kept in the history as the attempt's error.
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
        maximum: float | timedelta = DAY,
        jitter: float = 0.1,
        only: ExceptionTypes = (),
        never: ExceptionTypes = (),
        by_type: dict[type[BaseException], RetryPolicy] | None = None,
    ) -> RetryPolicy:
        """Wait `base * factor ** (attempt - 1)` seconds, at most `maximum`, give or take `jitter`.

        `jitter` is a share of the wait: 0.1 spreads it evenly over ±10 %, so that jobs which
        failed together do not come back together.
        """
        first, most = seconds(base), seconds(maximum)

        def backoff(attempt: int, error: BaseException | None) -> float:
            # A float power overflows near attempt 1000; the cap is reached long before.
            wait = min(most, first * factor ** min(attempt - 1, 64))
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
        """Wait exactly these times, one after another; one attempt more than there are waits."""
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
        """Ask `function(attempt, error)` for the wait, in seconds or as a `timedelta`."""
        return RetryPolicy(
            max_attempts, lambda n, e: seconds(function(n, e)), only, never, _pairs(by_type)
        )

    @staticmethod
    def never() -> RetryPolicy:
        """Try once; a failure makes the job dead."""
        return RetryPolicy(1, lambda n, _: 0.0)


def policy_of(retry: RetryPolicy | None, max_attempts: int | None) -> RetryPolicy:
    """Return a task's policy: the usual one unless given, with so many attempts if given."""
    policy = Retry.exponential() if retry is None else retry
    return policy if max_attempts is None else replace(policy, max_attempts=max_attempts)


class Snooze(Signal):
    """Raised by a handler: not now, later; does not consume an attempt.

    Parameters:
        after: seconds or `timedelta` until the job is ready again; at least one second, as each
            snooze is an attempt in the history.
        at: an aware datetime instead of `after`.
        reason: kept in the history.
    """

    def __init__(
        self,
        after: float | timedelta = 0.0,
        *,
        at: datetime | None = None,
        reason: str = "snoozed by its handler",
    ) -> None:
        super().__init__(reason)
        self.after = max(LEAST_SNOOZE, _not_negative(seconds(after), "Snooze(…)"))
        self.at = _aware(at, "Snooze(at=…)")


class Dead(Signal):
    """Raised by a handler: this job can never succeed; no further attempts."""

    def __init__(self, reason: str = "declared dead by its handler") -> None:
        super().__init__(reason)


class Cancel(Signal):
    """Raised by a handler: this job is no longer wanted; no further attempts, not dead either."""

    def __init__(self, reason: str = "cancelled by its handler") -> None:
        super().__init__(reason)


def _pairs(
    by_type: dict[type[BaseException], RetryPolicy] | None,
) -> tuple[tuple[type[BaseException], RetryPolicy], ...]:
    return tuple((by_type or {}).items())


def _not_negative(value: float, where: str) -> float:
    if not value >= 0:  # also refuses NaN
        raise ValueError(f"{where} was given {value} seconds; give 0 or more")
    return _at_most(value, where)


def _at_most(value: float, where: str) -> float:
    if not value <= LONGEST_WAIT:  # also refuses NaN
        raise ValueError(f"{where} was given {value} seconds; give at most {LONGEST_WAIT:g}")
    return value


def _aware(at: datetime | None, where: str) -> datetime | None:
    if at is None:
        return None
    if at.tzinfo is None:
        raise ValueError(f"{where} was given the naive datetime {at}; give one with a time zone")
    if not FIRST_YEAR <= at.year <= LAST_YEAR:
        raise ValueError(f"{where} was given {at}; give a year from {FIRST_YEAR} to {LAST_YEAR}")
    return at
