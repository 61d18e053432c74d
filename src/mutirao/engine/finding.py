"""What a child process runs, as names: where it is found in another process.

Only JSON crosses between processes, so a task, and the hooks around it, must stand at module level
under their own names.
"""

import sys
from importlib import import_module
from typing import Any

from mutirao.engine.messages import Place
from mutirao.errors import ConfigurationError
from mutirao.tasks.surroundings import Surroundings
from mutirao.tasks.task import Task


def place_of(thing: Any) -> Place:
    """Return where a task or a hook is found."""
    return thing.__module__, getattr(thing, "__qualname__", repr(thing))


def hooks_of(task: Task[..., Any]) -> tuple[Place, ...]:
    """Return where the hooks around a plain function are found."""
    return tuple(map(place_of, task.surroundings.hooks))


def check_places(task: Task[..., Any]) -> None:
    """Raise ConfigurationError if another process cannot find a task or a hook around it."""
    find_task(place_of(task))
    for hook in task.surroundings.hooks:
        if find(place := place_of(hook)) is not hook:
            raise ConfigurationError(
                f"the hook {'.'.join(place)} stands around process=True tasks such as"
                f" {task.name!r}, and another process does not find it under that name; define it"
                " at module level"
            )


def find_task(place: Place) -> Task[..., Any]:
    """Return the task that a child process finds under that name.

    Raises:
        ConfigurationError: there is no task of that name.
    """
    found = find(place)
    if not isinstance(found, Task):
        raise ConfigurationError(
            f"a process=True task must be found as {'.'.join(place)} by another process, which"
            f" finds {found!r}; define it at module level and keep the decorated name"
        )
    return found


def find_surroundings(hooks: tuple[Place, ...]) -> Surroundings:
    """Return what stands around a handler in this process."""
    surroundings = Surroundings()
    for place in hooks:
        surroundings.add_hook(find(place))
    return surroundings


def find(place: Place) -> Any:
    """Return what stands under that name, importing the module; None if nothing does."""
    module, qualname = place
    found: Any = sys.modules.get(module) or import_module(module)
    for part in qualname.split("."):
        found = getattr(found, part, None)
    return found
