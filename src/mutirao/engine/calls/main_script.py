"""Decides whether a child process may run the main script of a program to find its tasks.

Handlers of a script belong to the module `__main__`. Only for them a child runs the script, under
another name, as `multiprocessing` does: all that is not under `if __name__ == "__main__"` runs a
second time. So a script without that line is refused.
"""

import ast
import sys
from collections.abc import Iterable
from multiprocessing import spawn
from pathlib import Path
from typing import NamedTuple

from mutirao.engine.calls.child_protocol import ImportPath
from mutirao.errors import ConfigurationError

MAIN = "__main__"


class Main(NamedTuple):
    """How a program was started: `python -m NAME`, `python PATH`, or neither."""

    name: str | None = None
    path: str | None = None

    @classmethod
    def of_this_process(cls) -> "Main":
        """Return how this process was started."""
        main = sys.modules[MAIN]
        name = getattr(getattr(main, "__spec__", None), "name", None)
        return cls(name, getattr(main, "__file__", None))

    def check_for(self, places: Iterable[ImportPath]) -> None:
        """Check that a child may run the script, if it must find one of these names there.

        Raises:
            ConfigurationError: it would repeat what the script did, or cannot find it.
        """
        for module, name in places:
            if module == MAIN:
                self._check(name)

    def enter_for(self, places: Iterable[ImportPath]) -> None:
        """Run the script in this child, once, if one of these names is defined there.

        Raises:
            ConfigurationError: it must not, or cannot be run.
        """
        places = list(places)
        self.check_for(places)
        if any(module == MAIN for module, _ in places):
            by_name = {"init_main_from_name": self.name}
            spawn.prepare(by_name if self.name else {"init_main_from_path": self.path})

    def _check(self, wanted: str) -> None:
        if self.path is None or self._is_of_package():
            raise ConfigurationError(
                f"{wanted!r} must be imported by another process, which cannot import"
                f" {self.path or 'what was typed in'} as a module; put it into a module of its own"
            )
        if not _has_guard(Path(self.path)):
            raise ConfigurationError(
                f"{wanted!r} must be imported by another process, which would run {self.path} once"
                f' more; put what that starts under `if __name__ == "{MAIN}":`, or {wanted!r} into'
                " a module of its own"
            )

    def _is_of_package(self) -> bool:
        """Return whether it is the `__main__.py` of a package, directory or archive."""
        return self.name is not None and self.name.split(".")[-1] == MAIN


def _has_guard(script: Path) -> bool:
    """Return whether a script checks if it is the main one; False if it cannot be read."""
    try:
        tree = ast.parse(script.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return False
    return any(isinstance(node, ast.Compare) and _is_guard(node) for node in ast.walk(tree))


def _is_guard(asked: ast.Compare) -> bool:
    sides = [asked.left, *asked.comparators]
    names = [side.id for side in sides if isinstance(side, ast.Name)]
    return "__name__" in names and any(
        isinstance(side, ast.Constant) and side.value == MAIN for side in sides
    )
