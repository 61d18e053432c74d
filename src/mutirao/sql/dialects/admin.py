"""What people and migrations ask of a database, where the databases differ.

`admin_of` finds the one for a connection; what a worker does is told apart elsewhere.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from importlib import import_module
from typing import Any

from sqlalchemy import ColumnElement, Connection, Dialect

from mutirao.errors import ConfigurationError
from mutirao.sql.findings import Finding

DIALECTS = ("postgresql", "sqlite")


class Admin(ABC):
    """The differences between databases that migrating, looking and repairing meet."""

    name: str
    ddl_preface = ""  # what a script must say before the transaction that makes the schema

    @abstractmethod
    def migrating(self, connection: Connection) -> AbstractContextManager[None]:
        """Open a transaction in which nobody else migrates; commit it if the block succeeds."""

    def in_place(self, statement: str, connection: Connection | None) -> str:
        """Return a statement of a migration as it is for the schema that a connection makes it in.

        Without a connection, where it is printed, for the one that is usual.
        """
        return statement

    @abstractmethod
    def one_at_a_time(self, connection: Connection, what: str) -> None:
        """Wait until no other transaction does `what`, and keep others waiting until ours ends."""

    @abstractmethod
    def among(self, column: ColumnElement[int], values: Sequence[int]) -> ColumnElement[bool]:
        """Return whether a column is one of `values`, of which there may be any number."""

    @abstractmethod
    def has_tag(self, tags: ColumnElement[Any], tag: str) -> ColumnElement[bool]:
        """Return whether a JSON array of texts, or NULL, holds `tag`."""

    @abstractmethod
    def clock(self, connection: Connection) -> datetime:
        """Return what time it is by the database."""

    @abstractmethod
    def ailments(self, connection: Connection) -> Iterator[Finding]:
        """Examine indexes, plans and bloat; tell also what is well."""

    def grants(self, roles: Collection[str], to: str | None) -> str:
        """Return the statements that let roles do what they are for; all of them if none is named.

        Raises:
            ConfigurationError: there is no such role, or the database knows none.
        """
        raise ConfigurationError(
            f"{self.name} has no roles: whoever may write the file may do everything. Grants are"
            " for postgresql."
        )


def admin_of(dialect: Dialect) -> Admin:
    """Return what is particular to the database of `dialect`. Raises ConfigurationError."""
    return admin_named(dialect.name)


def admin_named(name: str) -> Admin:
    """Return what is particular to the database called `name`. Raises ConfigurationError."""
    if name not in DIALECTS:
        raise ConfigurationError(
            f"Mutirão does not know the SQL dialect {name!r}; it knows {', '.join(DIALECTS)}."
            " Choose one of those, or a database URL that starts with one."
        )
    admin: Admin = import_module(f"mutirao.sql.dialects.{name}.admin").ADMIN
    return admin
