"""The options of tasks that set none themselves: the application's, or the worker's instead."""

from dataclasses import dataclass
from math import inf
from typing import NamedTuple

from mutirao.errors import ConfigurationError
from mutirao.model.jobs.retry import MAX_WAIT, RetryPolicy, policy_of
from mutirao.model.jobs.retry_words import policy_in_words
from mutirao.tasks.options import TaskOptions


class AttemptTerms(NamedTuple):
    """The terms of the attempts of a task; `timeout` is in seconds."""

    retry: RetryPolicy
    timeout: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Defaults:
    """The retry policy, number of attempts and timeout (seconds) of tasks without their own.

    Raises:
        ConfigurationError: one of them is out of range.
    """

    retry: RetryPolicy | None = None
    max_attempts: int | None = None
    timeout: float | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.retry, RetryPolicy | None):
            raise ConfigurationError(
                f"retry is {self.retry!r}; give a policy, as in Retry.exponential(5)"
            )
        if self.max_attempts is not None and self.max_attempts < 1:
            raise ConfigurationError(
                f"max_attempts is {self.max_attempts}; it counts the first execution too, so give"
                " 1 (never retry) or more"
            )
        if self.timeout is not None and not 0 < self.timeout < MAX_WAIT:
            raise ConfigurationError(
                f"timeout is {self.timeout} seconds; give more than 0, or None for no limit"
            )

    def over(self, others: "Defaults") -> "Defaults":
        """Return these defaults, completed by others."""
        attempts = self.max_attempts or (None if self.retry else others.max_attempts)
        return Defaults(
            retry=self.retry or others.retry,
            max_attempts=attempts,
            timeout=others.timeout if self.timeout is None else self.timeout,
        )

    def of(self, options: TaskOptions) -> AttemptTerms:
        """Return the terms of a task with these options."""
        usual = policy_of(self.retry, self.max_attempts)
        timeout = self.timeout if options.timeout is None else options.timeout
        retry = policy_of(options.retry or usual, options.max_attempts)
        return AttemptTerms(retry, None if timeout == inf else timeout)


class DefaultsInWords(NamedTuple):
    """Defaults that can be sent to another process: the policy is described in words."""

    retry: str | None = None
    max_attempts: int | None = None
    timeout: float | None = None

    def defaults(self) -> Defaults:
        """Return the described defaults.

        Raises:
            ConfigurationError: one of them is out of range.
        """
        try:
            policy = None if self.retry is None else policy_in_words(self.retry)
        except ValueError as unfit:
            raise ConfigurationError(f"retry: {unfit}") from None
        return Defaults(retry=policy, max_attempts=self.max_attempts, timeout=self.timeout)


NO_DEFAULTS = DefaultsInWords()
