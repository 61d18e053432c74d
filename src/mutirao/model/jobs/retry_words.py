"""Retry policies in words, for command lines, variables and messages: `fixed:30s`."""

from datetime import timedelta

from mutirao.model.jobs.retry import Retry, RetryPolicy
from mutirao.model.lengths import length

ACCEPTED_FORMS = "exponential, exponential:5s, linear:1m, fixed:30s, delays:10s,1m,1h or never"


def policy_in_words(words: str) -> RetryPolicy:
    """Return the policy that words describe: a name, with the first wait or the waits.

    Raises:
        ValueError: they describe no policy.
    """
    name, _, rest = words.strip().partition(":")
    waits = [length(each.strip()) for each in rest.split(",")] if rest else []
    if name == "delays" and waits:
        return Retry.delays(*waits)
    if name == "never" and not waits:
        return Retry.never()
    if len(waits) <= 1 and (policy := _regular(name, waits)) is not None:
        return policy
    raise ValueError(f"{words!r} is no retry policy; write {ACCEPTED_FORMS}")


def _regular(name: str, waits: list[timedelta]) -> RetryPolicy | None:
    first = waits[0] if waits else None
    match name:
        case "exponential":
            return Retry.exponential() if first is None else Retry.exponential(base=first)
        case "linear":
            return Retry.linear() if first is None else Retry.linear(interval=first)
        case "fixed":
            return Retry.fixed() if first is None else Retry.fixed(interval=first)
    return None
