"""The checks of an application's tasks before a worker starts."""

from collections.abc import Collection, Mapping
from typing import Any

from mutirao.engine.finding import check_places
from mutirao.errors import ConfigurationError
from mutirao.tasks.task import Task, check_each


def check_tasks(tasks: Mapping[str, Task[..., Any]], served: Collection[str] | None) -> None:
    """Check that a worker can run these tasks.

    Parameters:
        tasks: the tasks of the application, by name.
        served: the names of those that the worker serves; None: all.

    Raises:
        ConfigurationError: there are no tasks, none has one of these names, or a task cannot work
            as it is.
    """
    if not tasks:
        raise ConfigurationError(
            "the application has no tasks; decorate functions with @app.task in a module"
            " that is imported before the worker starts"
        )
    strange = [name for name in served or () if name not in tasks]
    if strange:
        raise ConfigurationError(
            f"the application has no task {', '.join(map(repr, strange))}; of its tasks a"
            f" worker may serve some: {', '.join(sorted(tasks))}"
        )
    check_each(tasks.values())
    for task in tasks.values():
        if task.options.process:
            check_places(task)
