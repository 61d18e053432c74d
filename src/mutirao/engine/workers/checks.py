"""The checks of an application's tasks before a worker starts."""

from collections.abc import Collection, Mapping
from typing import Any

from mutirao.engine.calls.task_lookup import check_places
from mutirao.errors import ConfigurationError
from mutirao.ports import Transport
from mutirao.tasks.defaults import Defaults
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


def check_waits(
    tasks: Mapping[str, Task[..., Any]], transports: Mapping[str, Transport], usual: Defaults
) -> None:
    """Check that no retry waits for longer than a queue that keeps an order can have it wait.

    What waits for longer goes on in the database, but for such: others would come before it.

    Parameters:
        transports: those of the queues that are served, by queue.
        usual: what applies to tasks without options of their own.

    Raises:
        ConfigurationError: the policy of a task may wait for longer.
    """
    for name, task in tasks.items():
        queue = transports.get(task.options.queue)
        if queue is None or queue.longest_delay:
            continue
        if (wait := task.terms(usual).retry.longest_wait()) > queue.longest_again:
            raise ConfigurationError(
                f"task {name!r} may wait {wait:,.0f} s for its next attempt, and its queue"
                f" {task.options.queue!r}, which keeps the order of its jobs, holds one for"
                f" {queue.longest_again:,.0f} s at most; give its policy a smaller maximum or fewer"
                " attempts, or the task a queue without order"
            )
