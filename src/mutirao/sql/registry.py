"""The one list of the supported databases.

At the bottom of these rooms, so that each can ask; a dialect is loaded when it is asked for. Names
are those of SQLAlchemy's backends.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from mutirao.errors import ConfigurationError

if TYPE_CHECKING:
    from sqlalchemy import Dialect as SqlAlchemyDialect

    from mutirao.sql.dialects.base import Dialect

DIALECTS = {
    "postgresql": "mutirao.sql.dialects.postgresql.dialect:POSTGRESQL",
    "sqlite": "mutirao.sql.dialects.sqlite.dialect:SQLITE",
    "mysql": "mutirao.sql.dialects.mysql.dialect:MARIADB",
    "mariadb": "mutirao.sql.dialects.mysql.dialect:MARIADB",
}


class Derived(NamedTuple):
    """A database that is not served: its tables are written, from the SQL of another one."""

    of: str
    derive: str  # the function that does so, by the name of its module and its own


# Nobody connects to them.
TABLES_ONLY = {"singlestore": Derived("mysql", "mutirao.sql.dialects.singlestore:derived")}


@cache
def dialect_named(name: str) -> Dialect:
    """Return the dialect of the database called `name`. Raises ConfigurationError."""
    if name not in DIALECTS:
        raise ConfigurationError(
            f"Mutirão does not know the SQL dialect {name!r}; it knows {', '.join(DIALECTS)}."
            " Choose one of those, or a database URL that starts with one."
        )
    module, _, attribute = DIALECTS[name].partition(":")
    dialect: Dialect = getattr(import_module(module), attribute)
    return dialect


def derivation(name: str) -> Callable[[str], str]:
    """Return what makes the tables of a database in `TABLES_ONLY` of those of the other one."""
    module, _, function = TABLES_ONLY[name].derive.partition(":")
    derive: Callable[[str], str] = getattr(import_module(module), function)
    return derive


def dialect_of(dialect: SqlAlchemyDialect) -> Dialect:
    """Return the dialect of the store for a SQLAlchemy dialect."""
    return dialect_named(dialect.name)


def all_dialects() -> list[Dialect]:
    """Return all dialects."""
    return list({id(each): each for each in map(dialect_named, DIALECTS)}.values())


def dialect_with_roles() -> Dialect:
    """Return the dialect whose database knows roles, for callers that do not say which is meant."""
    return next(each for each in all_dialects() if each.has_roles)
