"""The differences between databases; nothing outside this package asks which one it is."""

from importlib import import_module

from mutirao.errors import ConfigurationError
from mutirao.sql.dialects.base import Dialect
from mutirao.sql.dialects.connecting import Connecting

_CLASSES = {"postgresql": "PostgreSQL", "sqlite": "SQLite"}


def dialect_named(name: str) -> Dialect:
    """Return the dialect of a SQLAlchemy backend name. Raises ConfigurationError."""
    if name not in _CLASSES:
        raise ConfigurationError(f"no SQL dialect {name!r}; known are {', '.join(_CLASSES)}")
    module = import_module(f"mutirao.sql.dialects.{name}.dialect")
    dialect: Dialect = getattr(module, _CLASSES[name])()
    return dialect


def all_connecting() -> list[Connecting]:
    """Return how each known database is connected to."""
    modules = (f"mutirao.sql.dialects.{name}.connecting" for name in _CLASSES)
    return [import_module(module).CONNECTING for module in modules]
