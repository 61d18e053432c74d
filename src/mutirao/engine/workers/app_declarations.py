"""The application code that a worker needs: tasks, middleware, schedules, limits, listeners."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mutirao.engine.measurement_listeners import Listeners
from mutirao.model.limits.limits import Rule
from mutirao.model.schedules.schedule import Schedule
from mutirao.tasks.around.middleware import AttemptMiddleware
from mutirao.tasks.task import Task


@dataclass(frozen=True, slots=True)
class AppDeclarations:
    """The code of one application.

    Parameters:
        middleware: wraps each attempt.
        schedules: returns those that workers of the database run, or raises if one is wrong.
        limits: returns them, or raises if one is wrong.
        version: that of this package.
        listeners: measure its workers; None: nothing does.
    """

    tasks: Mapping[str, Task[..., Any]]
    middleware: Sequence[AttemptMiddleware] = ()
    schedules: Callable[[], Sequence[Schedule]] = tuple
    limits: Callable[[], Sequence[Rule]] = tuple
    version: str = ""
    listeners: Listeners | None = None
