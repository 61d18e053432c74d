"""Computes the effective options of each task once, not for each attempt."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mutirao.engine.calls.processes import START_TIMEOUT, UP_TIMEOUT
from mutirao.model.jobs.job import Claim
from mutirao.model.jobs.retry import RetryPolicy
from mutirao.tasks.defaults import Defaults
from mutirao.tasks.task import Task


@dataclass(frozen=True, slots=True)
class EffectiveOptions:
    """The options that a worker uses for all attempts of one task.

    A task that leaves an option out has the default of the worker, or of the application.

    Parameters:
        retry: its policy.
        timeout: in seconds, of jobs that have none of their own; None: there is none.
        stall_timeout: the seconds that an attempt may go without a sign of life, or None.
        in_child: whether the handler runs in a child process.
        around: whether middleware wraps each attempt.
    """

    task: Task[..., Any]
    retry: RetryPolicy
    timeout: float | None
    stall_timeout: float | None
    in_child: bool
    around: bool

    def timeout_of(self, claim: Claim) -> float | None:
        """Return the timeout of one job in seconds, or None."""
        return self.timeout if claim.timeout is None else claim.timeout

    @property
    def lead(self) -> float:
        """The seconds that may pass before the handler begins."""
        return UP_TIMEOUT + START_TIMEOUT if self.in_child else 0.0

    @property
    def in_thread(self) -> bool:
        """Whether the handler runs in a thread, which cannot be ended from outside."""
        return not (self.task.is_coroutine or self.in_child)

    @property
    def in_loop(self) -> bool:
        """Whether the handler runs in the event loop, which it may block."""
        return self.task.is_coroutine and not self.in_child

    @property
    def is_call(self) -> bool:
        """Whether an attempt is only a call in a thread; see `Executor.begin` and `end`."""
        task = self.task
        return not (task.is_coroutine or self.in_child or self.around or task.asks)


class EffectiveOptionsByTask(dict[str, EffectiveOptions]):
    """The effective options of each task, computed at the first lookup of its name.

    Parameters:
        defaults: the worker's, for tasks without options of their own; None: the application's.
        children: whether the worker has child processes for tasks that want one.
        around: whether middleware wraps each attempt.
    """

    def __init__(
        self,
        tasks: Mapping[str, Task[..., Any]],
        defaults: Defaults | None,
        *,
        children: bool,
        around: bool,
    ) -> None:
        super().__init__()
        self._tasks, self._defaults = tasks, defaults
        self._children, self._around = children, around

    def __missing__(self, name: str) -> EffectiveOptions:
        task = self._tasks[name]
        retry, timeout = task.terms(self._defaults)
        stall, in_child = task.options.stall_timeout, task.options.process and self._children
        options = EffectiveOptions(task, retry, timeout, stall, in_child, self._around)
        self[name] = options
        return options
