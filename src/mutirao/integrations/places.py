"""How other programs find an object of a program: by its name in a module."""

import sys
from collections.abc import Iterator
from types import ModuleType


def place_of(thing: object) -> tuple[str, str] | None:
    """Return the module that has a thing under a name, and the name; None if no module has it.

    A module that can be imported goes before the one that was run as a script.
    """
    found = sorted(_places(thing), key=lambda place: place[0] == "__main__")
    return found[0] if found else None


def _places(thing: object) -> Iterator[tuple[str, str]]:
    for module, loaded in [*sys.modules.items()]:
        if isinstance(loaded, ModuleType):
            yield from ((module, name) for name, each in [*vars(loaded).items()] if each is thing)
