"""Checks before a worker starts: its tasks, its interpreter, its database schema."""

import asyncio
import sys
from collections.abc import Collection, Mapping
from typing import Any

from mutirao.engine.calls.task_lookup import check_places
from mutirao.errors import ConfigurationError, SchemaError, StoreError
from mutirao.ports import Store, Transport
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
    """Check that no retry waits for longer than a queue that keeps an order allows.

    A longer wait moves a job to the database, except in such queues: other jobs would overtake it.

    Parameters:
        transports: those of the queues that are served, by queue.
        usual: the defaults for tasks without options of their own.

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


_ASKS = {"gevent.monkey": ("is_module_patched", "threading"),
         "eventlet.patcher": ("is_monkey_patched", "thread")}  # fmt: skip


def refuse_patched() -> None:
    """Raise ConfigurationError if gevent or eventlet has patched the threads of this process.

    The loops of a worker need asyncio, and its heartbeat needs a thread that runs while handlers
    compute: greenlets provide neither.
    """
    for name, (asks, what) in _ASKS.items():
        if (module := sys.modules.get(name)) is not None and getattr(module, asks)(what):
            raise ConfigurationError(
                f"{name.partition('.')[0]} has patched this process, and a worker needs threads and"
                " asyncio as they are; start it as a process of its own that is not patched, such"
                " as `mutirao worker`. To enqueue needs no worker, and works here"
            )


CHECK_LIMIT = 3.0  # seconds


async def cause_of(error: StoreError, store: Store) -> Exception:
    """Return the SchemaError that explains why a worker's statement was refused, or the error."""
    try:
        async with asyncio.timeout(CHECK_LIMIT):
            await store.check()
    except SchemaError as unfit:
        return unfit
    except Exception:  # noqa: BLE001 (the error that there was says more)
        return error
    return error
