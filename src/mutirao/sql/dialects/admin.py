"""The administration of a database by people and migrations, where databases differ."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from typing import TYPE_CHECKING

from sqlalchemy import Connection

from mutirao.errors import ConfigurationError

if TYPE_CHECKING:
    from mutirao.model.findings import Finding


class Admin(ABC):
    """The interface for what differs when people migrate, examine and repair a database."""

    ddl_preface = ""  # what a script must say before the transaction that makes the schema

    @abstractmethod
    def migrating(self, connection: Connection) -> AbstractContextManager[None]:
        """Open a transaction in which no other one migrates; commit it if the block succeeds."""

    @contextmanager
    def migrating_within(self, connection: Connection) -> Iterator[None]:
        """Keep others from migrating, in a transaction that its caller ends, if there is one.

        The caller's session is afterwards as it was.
        """
        with self.migrating(connection):
            yield

    def prepare_file(self, connection: Connection) -> None:
        """Do steps that no transaction can do, before a migration; nothing if there is no file."""
        return

    def entering(self, schema: str, connection: Connection | None) -> list[str]:
        """Return the statements with which a migration begins, so that it works in a schema.

        Without a connection it is printed, for a database where the schema may be missing.

        Raises:
            ConfigurationError: the database has no schemas, or the name cannot be one.
        """
        raise ConfigurationError(
            f"schema={schema!r} was given for a database that has no schemas; leave it out"
        )

    def in_place(
        self, statement: str, connection: Connection | None, schema: str | None
    ) -> Sequence[str]:
        """Return a statement of a migration, adapted to the schema in which it is executed.

        They are several where the database cannot do at once what it says.

        That is `schema`, or else the one where a connection makes things; without a connection,
        where it is printed, the usual one.
        """
        return (statement,)

    @abstractmethod
    def mend(
        self, connection: Connection, statements: Iterable[str], fills: Mapping[str, str]
    ) -> bool:
        """Give a database the form that a revision's statements make; keep all rows.

        Returns whether it had another one.

        Parameters:
            statements: all of the revision, each in its place.
            fills: what new columns hold in rows that are there, as SQL, by `<table>.<column>`.
        """

    @abstractmethod
    def one_at_a_time(self, connection: Connection, what: str) -> None:
        """Wait until no other transaction does `what`, and keep others waiting until ours ends."""

    def bound_locks(self, connection: Connection) -> None:
        """Limit how long this transaction locks objects that others need, and waits for locks.

        Where the server can, it ends the transaction of a client that hangs or is suspended.
        """
        return

    @abstractmethod
    def clock(self, connection: Connection) -> datetime:
        """Return the time of the database's clock."""

    def unfit(self, connection: Connection) -> Iterator[Finding]:
        """Find what keeps us from working on this server, with our tables or without."""
        yield from ()

    @abstractmethod
    def health_checks(self, connection: Connection) -> Iterator[Finding]:
        """Examine indexes, plans and bloat, and report good results, too."""

    def searched(self, connection: Connection) -> tuple[str, str]:
        """Return where tables without a schema are looked for, and in which schemas ours are.

        The former as the end of a sentence, with a space; either is "" if there is no choice.
        """
        return "", ""

    def grants(self, roles: Collection[str], to: str | None, schema: str | None) -> str:
        """Return the statements that grant roles their privileges; of all roles if none is named.

        `schema` is the one that was chosen for the tables.

        Raises:
            ConfigurationError: there is no such role, or the database knows none.
        """
        raise ConfigurationError(
            "this database has no roles: whoever may write to it may do everything. Grants are for"
            " PostgreSQL."
        )
