"""Imports the modules named on the command line, and prints what their import did that it must not.

Run it as a program of its own (`python -B import_spy.py package`): an audit hook cannot be taken
away again. One line each: what happened, a tab, its detail. Every module of a package is imported.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import sys
from collections.abc import Iterator, MutableMapping
from types import FrameType, ModuleType

CONNECTIONS = ("socket.connect", "sqlite3.connect", "subprocess.Popen", "os.fork", "os.system")
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT


class SpyingEnvironment(MutableMapping[str, str]):
    """The environment, which notes in `offences` each read by the modules of `packages`."""

    def __init__(self, real: MutableMapping[str, str], packages: list[str]) -> None:
        self._real = real
        self._packages = packages
        self.offences: list[str] = []

    def __getitem__(self, name: str) -> str:
        self._note(name)
        return self._real[name]

    def __iter__(self) -> Iterator[str]:
        self._note("*")
        return iter(self._real)

    def __len__(self) -> int:
        return len(self._real)

    def __setitem__(self, name: str, value: str) -> None:
        self._note(name)
        self._real[name] = value

    def __delitem__(self, name: str) -> None:
        self._note(name)
        del self._real[name]

    def copy(self) -> dict[str, str]:
        """As `os.environ.copy()` does."""
        return dict(self)

    def _note(self, name: str) -> None:
        module = _caller(sys._getframe(2))
        if module.split(".")[0] in self._packages:
            self.offences.append(f"environment\t{name} by {module}")


def _caller(frame: FrameType | None) -> str:
    """Return the first module up the stack beyond the standard library's way to a variable."""
    passing = ("os", "collections.abc", "_collections_abc", "posixpath", __name__)
    while frame is not None and frame.f_globals.get("__name__") in passing:
        frame = frame.f_back
    return str(frame.f_globals.get("__name__")) if frame else ""


def _every_module(package: ModuleType) -> Iterator[str]:
    paths = getattr(package, "__path__", [])
    return (m.name for m in pkgutil.walk_packages(paths, prefix=f"{package.__name__}."))


def _set_django_up() -> None:
    """Have a project in which modules with models can be imported at all."""
    import django
    from django.conf import settings

    apps = [f"django.contrib.{name}" for name in ("admin", "auth", "contenttypes", "messages")]
    settings.configure(
        INSTALLED_APPS=[*apps, "mutirao.integrations.django"],
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "none.db"}},
    )
    django.setup(set_prefix=False)


def main(packages: list[str]) -> None:
    """Import every module of `packages` under watch, and print the offences."""
    offences: list[str] = []

    def watch(event: str, arguments: tuple[object, ...]) -> None:
        if event in CONNECTIONS:
            offences.append(f"{event}\t{arguments}")
        if event == "open" and isinstance(arguments[2], int) and arguments[2] & _WRITES:
            offences.append(f"write\t{arguments[0]}")

    environment = SpyingEnvironment(os.environ, packages)
    os.environ = environment  # type: ignore[assignment]  # noqa: B003 (a spy must stand in for it)
    sys.addaudithook(watch)
    if "mutirao" in packages:
        _set_django_up()
    for name in packages:
        for module in _every_module(importlib.import_module(name)):
            importlib.import_module(module)
    sys.stdout.write("".join(f"{line}\n" for line in offences + environment.offences))


if __name__ == "__main__":
    main(sys.argv[1:])
