"""Probes: functions that return the state of work that a handler has started elsewhere."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from math import isfinite
from typing import Any, TypeVar, overload

from mutirao.errors import InvalidTask
from mutirao.tasks.options import TaskOptions

ASK_EVERY = 5.0  # seconds between two calls

Asks = TypeVar("Asks", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Probe:
    """The probe function, and the seconds between two calls."""

    function: Callable[..., Any]
    every: float

    @property
    def is_coroutine(self) -> bool:
        """True if it is called in the event loop, and not in a thread."""
        return inspect.iscoroutinefunction(self.function)


class Probed:
    """The part of a task that has a probe."""

    name: str
    options: TaskOptions
    asks: Probe | None = None

    @overload
    def probe(self, function: Asks) -> Asks: ...
    @overload
    def probe(self, *, every: float | timedelta = ASK_EVERY) -> Callable[[Asks], Asks]: ...
    def probe(
        self, function: Asks | None = None, *, every: float | timedelta = ASK_EVERY
    ) -> Asks | Callable[[Asks], Asks]:
        """Register a function that returns the state of work that the handler has started.

        The attempt continues when the handler has returned. The probe is called with the `Job` and
        the handler's result, at once and then every `every` seconds (or a `timedelta`), and returns
        a `Work`, or its text: "running", "done" or "failed". A timeout or a shutdown ends the
        attempt, and does not end the work.

        Raises:
            InvalidTask: the task has a probe or `process=True`, or the function cannot be a probe.
        """
        if function is None:
            return lambda given: self._ask(given, every)
        return self._ask(function, every)

    def _ask(self, function: Asks, every: float | timedelta) -> Asks:
        seconds: object = every.total_seconds() if isinstance(every, timedelta) else every
        if self.asks is not None:
            raise InvalidTask(f"task {self.name!r} has a probe already; give it one")
        if not isinstance(seconds, int | float) or not isfinite(seconds) or seconds <= 0:
            raise InvalidTask(
                f"the probe of task {self.name!r} is to be asked every {every!r}; give seconds,"
                " more than 0"
            )
        try:
            inspect.signature(function).bind(None, None)
        except (TypeError, ValueError) as unfit:
            raise InvalidTask(
                f"the probe of task {self.name!r} must take the Job and what the handler returned:"
                f" {unfit}"
            ) from unfit
        if self.options.process:
            raise InvalidTask(
                f"task {self.name!r} has process=True, and a probe is asked of work that runs"
                " elsewhere already; drop one of both"
            )
        self.asks = Probe(function, seconds)
        return function
