"""Finds a task in a child process by its import path.

Only JSON crosses between processes, so a task, and its hooks and factories, must be defined at
module level under their own names.
"""

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from mutirao.engine.calls.child_protocol import ImportPath, Order
from mutirao.engine.calls.main_script import Main
from mutirao.errors import ConfigurationError
from mutirao.model.brokers.message_id import MessageId
from mutirao.model.jobs.job import Claim
from mutirao.model.trace import trace_headers
from mutirao.tasks.around.hooks import Hooks
from mutirao.tasks.defaults import DefaultsInWords
from mutirao.tasks.task import Task


def order_for(
    task: Task[..., Any], claim: Claim, defaults: DefaultsInWords, database: str = ""
) -> Order:
    """Return the order for a child to run a task's handler for a claim from a database.

    It gives the application's timeout if the worker has none: a child that imports a blueprint does
    not know the application.
    """
    if defaults.timeout is None:
        defaults = defaults._replace(timeout=task.defaults.timeout)
    hooks, factories = (tuple(map(_place, each)) for each in _around(task))
    message = None
    if isinstance(claim.id, MessageId):
        dead = None if claim.on_dead_of is None else f"{MessageId(claim.on_dead_of)}"
        message, claim = (str(claim.id), dead), claim._replace(id=0, on_dead_of=None)
    place, trace = _place(task), trace_headers()
    return Order(place, claim, hooks, factories, defaults, database, message, trace)


def check_places(task: Task[..., Any]) -> None:
    """Raise ConfigurationError if another process cannot find a task, its hooks or factories."""
    _find_task(_place(task))
    around = [each for kind in _around(task) for each in kind]
    Main.of_this_process().check_for(map(_place, [task, *around]))
    for each in around:
        if _find(place := _place(each)) is not each:
            raise ConfigurationError(
                f"{'.'.join(place)} stands around process=True tasks such as {task.name!r}, and"
                " another process does not find it under that name; define it at module level"
            )


def find_task(order: Order, main: Main) -> Task[..., Any]:
    """Return the task of an order, with its hooks and factories.

    Parameters:
        main: the main script of the worker; it is run if it defines one of them.

    Raises:
        ConfigurationError: there is no task of that name, or the main script must not be run.
    """
    main.enter_for((order.task, *order.hooks, *order.factories))
    surroundings = Hooks()
    for place in order.hooks:
        surroundings.add_hook(_find(place))
    for place in order.factories:
        surroundings.factories.add(_find(place))
    return _find_task(order.task).within(surroundings)


def _around(task: Task[..., Any]) -> tuple[Sequence[Any], Sequence[Any]]:
    hooks = (*task.surroundings.child_hooks, *task.surroundings.hooks)
    return hooks, [each.function for each in task.inside.plan]


def _place(thing: Any) -> ImportPath:
    return thing.__module__, getattr(thing, "__qualname__", repr(thing))


def _find_task(place: ImportPath) -> Task[..., Any]:
    found = _find(place)
    if not isinstance(found, Task):
        # An integration with a task class of its own, as `django.tasks`, names the task behind it.
        found = getattr(found, "native", found)
    if not isinstance(found, Task):
        raise ConfigurationError(
            f"a process=True task must be found as {'.'.join(place)} by another process, which"
            f" finds {found!r}; define it at module level and keep the decorated name"
        )
    return found


def _find(place: ImportPath) -> Any:
    """Return the object of that name, importing the module; None if there is none."""
    module, qualname = place
    found: Any = sys.modules.get(module) or import_module(module)
    for part in qualname.split("."):
        found = getattr(found, part, None)
    return found
