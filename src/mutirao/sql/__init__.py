"""The SQL store: jobs in the tables of a database that SQLAlchemy can reach."""

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType


def on_demand(package: str) -> Callable[[str], ModuleType]:
    """Return the `__getattr__` of a package, which loads its modules when they are first asked for.

    Whoever needs one in a few of its functions writes `package.module`, and imports the package.
    """

    def load(name: str) -> ModuleType:
        whole = f"{package}.{name}"
        if name.startswith("_") or find_spec(whole) is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return import_module(whole)

    return load
