"""The options of Celery's tasks and calls, as our options say the same."""

import random
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

from mutirao.errors import ConfigurationError
from mutirao.integrations.celery.refusing import refusal, refuse_options
from mutirao.model.jobs.retry import RetryPolicy
from mutirao.model.limits.limits import Limit

Priorities = Literal["bigger first", "smaller first"]
FOREVER = 2**31 - 1  # attempts
RETRIES, DELAY = 3, 180.0  # as Celery has them; seconds

_TASK = frozenset({
    "name", "bind", "queue", "priority", "expires", "rate_limit", "time_limit", "ignore_result",
    "autoretry_for", "dont_autoretry_for", "retry_kwargs", "retry_backoff", "retry_backoff_max",
    "retry_jitter", "max_retries", "default_retry_delay", "acks_late", "reject_on_worker_lost",
    "acks_on_failure_or_timeout", "track_started", "throws", "serializer", "trail", "send_events",
    "store_errors_even_if_ignored",
})  # fmt: skip
_NOT_OF_TASK = {
    "base": ("write what the base class did around the handler: @app.around_handler", "base-class"),
    "soft_time_limit": ("a coroutine is cancelled at its time_limit, and may clean up", "time"),
    "typing": ("calls are always checked against the signature", "options"),
    "pydantic": ("models are converted by their annotations; leave it out", "arguments"),
    "exchange": ("queues have no exchanges; give queue=", "routing"),
    "routing_key": ("queues have no routing keys; give queue=", "routing"),
    "compression": ("arguments are stored as they are", "options"),
    "shared": ("each application has its own tasks", "options"),
    "abstract": ("there are no classes of tasks", "base-class"),
    "after_return": ("use @app.around_handler, or middleware", "base-class"),
    "on_failure": ("use @task.on_dead", "base-class"),
    "on_retry": ("use middleware", "base-class"),
    "on_success": ("use @app.around_handler, or the next step of a chain", "base-class"),
}
_CALL = frozenset({
    "countdown", "eta", "expires", "queue", "priority", "retry", "retry_policy", "headers", "link",
    "time_limit", "ignore_result", "serializer", "conn",
})  # fmt: skip
_NOT_OF_CALL = {
    "task_id": ("ids are the database's; give a key: task.native.using(key=…)", "ids"),
    "link_error": ("use @task.on_dead", "canvas"),
    "soft_time_limit": _NOT_OF_TASK["soft_time_limit"],
    "exchange": _NOT_OF_TASK["exchange"],
    "routing_key": _NOT_OF_TASK["routing_key"],
    "compression": _NOT_OF_TASK["compression"],
    "connection": ("jobs are written into the database; give conn=, its connection", "calls"),
    "producer": ("jobs are written into the database; give conn=, its connection", "calls"),
    "shadow": ("a job is shown by its task; give tags: task.native.using(tags=…)", "options"),
    "group_id": ("give the group to our graph: mutirao.group", "canvas"),
    "chord": ("give the chord to our graph: mutirao.chain(mutirao.group(…), …)", "canvas"),
    "message_group_id": ("use limits and order: docs/limits.md", "routing"),
    "stamped_headers": ("use tags and metadata", "options"),
}
_RATE = re.compile(r"(\d+(?:\.\d+)?)(?:/([smh]))?\Z")
_PERIODS = {"s": 1, "m": 60, "h": 3_600, None: 1}


@dataclass(frozen=True, slots=True)
class Retrying:
    """How Celery tries a task again.

    Parameters:
        most: retries, besides the first attempt; None: unlimited.
        delay: seconds before a retry, unless another option sets them.
    """

    most: int | None
    delay: float
    automatic: tuple[type[BaseException], ...]
    never: tuple[type[BaseException], ...]
    backoff: float
    longest: float
    jitter: bool

    @property
    def attempts(self) -> int:
        """The number of attempts in all."""
        return FOREVER if self.most is None else self.most + 1

    def policy(self) -> RetryPolicy:
        """Return our policy: only errors that are named are tried again."""
        return RetryPolicy(
            self.attempts, self._wait, only=self.automatic or (_NoError,), never=self.never
        )

    def _wait(self, attempt: int, error: BaseException | None) -> float:
        if not self.backoff:
            return self.delay
        wait = min(self.longest, self.backoff * 2.0 ** min(attempt - 1, 60))
        return random.uniform(0, wait) if self.jitter else wait


class _NoError(Exception):
    """An error that is never raised, for options without errors to retry."""


def task_options(
    given: Mapping[str, Any], priorities: Priorities
) -> tuple[dict[str, Any], Retrying]:
    """Return the equivalent options of `@app.task(…)`, and how retries continue.

    Raises:
        ConfigurationError: one of them has no equal.
    """
    refuse_options("task", given, _NOT_OF_TASK, _TASK)
    _refuse_values(given)
    retrying = _retrying(given)
    ours: dict[str, Any] = {"retry": retrying.policy()}
    if given.get("queue") is not None:
        ours["queue"] = given["queue"]
    if given.get("priority") is not None:
        ours["priority"] = priority_of(given["priority"], priorities)
    if given.get("expires") is not None:
        ours["expires"] = given["expires"]
    if given.get("time_limit") is not None:
        ours["timeout"] = given["time_limit"]
    if given.get("rate_limit") is not None:
        ours["limit"] = rate(given["rate_limit"])
    if given.get("ignore_result") is not None:
        ours["keep_result"] = not given["ignore_result"]
    return ours, retrying


def call_options(given: Mapping[str, Any], priorities: Priorities) -> dict[str, Any]:
    """Return the options of `task.using(…)` that say the same as those of `apply_async`.

    Raises:
        ConfigurationError: one of them has no equal.
    """
    refuse_options("apply_async", given, _NOT_OF_CALL, _CALL)
    _refuse_serializer(given)
    names = {"countdown": "delay", "eta": "run_at", "time_limit": "timeout"}
    taken = ("countdown", "eta", "expires", "queue", "time_limit")
    ours = {names.get(name, name): given[name] for name in taken if given.get(name) is not None}
    if given.get("priority") is not None:
        ours["priority"] = priority_of(given["priority"], priorities)
    if given.get("headers"):
        ours["metadata"] = {"headers": dict(given["headers"])}
    if given.get("conn") is not None:
        ours["conn"] = given["conn"]
    return ours


def priority_of(priority: int, priorities: Priorities) -> int:
    """Return our priority: here the smaller one runs first."""
    return -priority if priorities == "bigger first" else priority


def rate(given: str | float) -> Limit:
    """Return the limit of a rate such as 10/m; here it is one of the whole fleet.

    Raises:
        ConfigurationError: it is none, or is zero.
    """
    found = _RATE.match(str(given))
    number = float(found[1]) if found else 0.0
    if not found or number <= 0:
        raise ConfigurationError(
            f"rate_limit is {given!r}; give a rate such as '10/s', '100/m' or '1000/h'"
        )
    period = _PERIODS[found[2]]
    if number != int(number):
        return Limit(1, per=period / number)
    return Limit(int(number), per=period)


def _retrying(given: Mapping[str, Any]) -> Retrying:
    kwargs = dict(given.get("retry_kwargs") or {})
    most = kwargs.pop("max_retries", given.get("max_retries", RETRIES))
    delay = kwargs.pop("countdown", given.get("default_retry_delay", DELAY))
    if kwargs:
        raise refusal(f"retry_kwargs={kwargs!r}", "give max_retries and countdown", "retries")
    backoff = given.get("retry_backoff", False)
    return Retrying(
        most=most,
        delay=delay.total_seconds() if isinstance(delay, timedelta) else float(delay),
        automatic=tuple(given.get("autoretry_for") or ()),
        never=tuple(given.get("dont_autoretry_for") or ()),
        backoff=max(1.0, float(backoff)) if backoff else 0.0,
        longest=float(given.get("retry_backoff_max", 600)),
        jitter=bool(given.get("retry_jitter", True)),
    )


def _refuse_values(given: Mapping[str, Any]) -> None:
    """Raise ConfigurationError for values that ask for unsupported behaviour."""
    _refuse_serializer(given)
    for name in ("acks_late", "reject_on_worker_lost"):
        if given.get(name, True) is False:
            raise refusal(
                f"task({name}=False)",
                "a job whose worker is lost always runs again; leave it out, and have the task bear"
                " a repetition",
                "acknowledging",
            )
    if given.get("acks_on_failure_or_timeout", True) is False:
        raise refusal(
            "task(acks_on_failure_or_timeout=False)",
            "what fails is tried again as its retries say; name the errors in autoretry_for",
            "acknowledging",
        )


def _refuse_serializer(given: Mapping[str, Any]) -> None:
    if given.get("serializer") not in (None, "json"):
        raise refusal(f"serializer={given['serializer']!r}", "arguments are JSON", "arguments")
