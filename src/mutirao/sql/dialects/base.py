"""The interface of a dialect: everything that differs between databases.

Its methods return expressions for the statements that are written once for all databases. Larger
differences are in its parts: `connecting`, `intake`, `rules`, `admin`.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Insert,
    Row,
    Select,
    Table,
    Update,
    and_,
    delete,
    exists,
    null,
    select,
    true,
    update,
)
from sqlalchemy.types import TypeEngine

from mutirao.model.jobs.job import Job
from mutirao.model.jobs.outcome import Settlement
from mutirao.ports import Notifier
from mutirao.sql.dialects.admin import Admin
from mutirao.sql.dialects.connecting import Connecting, Place
from mutirao.sql.drivers.steps import Query
from mutirao.sql.enqueue.intake import DialectIntake
from mutirao.sql.rules.base import Rules
from mutirao.sql.schema.tables import live

if TYPE_CHECKING:
    from mutirao.model.filters.conditions import Scalar

Id = TypeVar("Id", int, str)
LIKE_ESCAPE = "!"


def like_pattern(pattern: str) -> str:
    """Return a pattern with `*` as one of LIKE, where nothing else has a meaning."""
    return re.sub("([!%_])", rf"{LIKE_ESCAPE}\1", pattern).replace("*", "%")


class Dialect(ABC):
    """Everything that is particular to one kind of database; `mutirao.sql.registry` finds it."""

    name: ClassVar[str]
    connecting: ClassVar[Connecting]
    intake: ClassVar[DialectIntake]
    rules: ClassVar[Rules]
    instant: ClassVar[TypeEngine[datetime]]  # how tables keep moments
    shown: ClassVar[TypeEngine[datetime]]  # how views show them
    constants: ClassVar[Mapping[str, str]]  # moments that SQL files name, such as `${parked}`
    has_roles: ClassVar[bool] = False  # that may be granted something
    clock: ClassVar[ColumnElement[datetime]]  # the time when a statement is executed
    delivers: ClassVar[bool] = False  # whether it makes deliveries by itself
    # Columns of a job that is live from the beginning.
    placed: ClassVar[Mapping[str, ColumnElement[Any]]] = MappingProxyType({})
    fan_out_at_once: ClassVar[int]  # subscriptions of a part after the first
    notifies_ends: ClassVar[bool]  # whether waiters for ends must request a notification

    @property
    @abstractmethod
    def admin(self) -> Admin:
        """Return the part for people and migrations, loaded on first use: workers never use it."""

    def notifier(self, place: Place) -> Notifier | None:
        """Return the notifier that wakes workers; None if workers can only poll."""
        return None

    def ends_notifier(self, place: Place) -> Notifier | None:
        """Return the notifier of ended jobs; None if callers can only poll."""
        return self.notifier(place)

    def refuse_server(self, conn: Connection) -> None:
        """Refuse a server that cannot be used, and a session with wrong settings.

        Raises:
            ConfigurationError: what it has, and what to do.
        """
        return

    # Whether `look_up` needs a transaction; without one SQLite lets others write meanwhile.
    looks_up_in_transaction = False

    def look_up(self, conn: Connection, seconds: float) -> None:
        """Make this transaction look rows up one by one, instead of reading a table as a whole.

        For a caller that reads some ten thousand of many millions. Where the database can be
        configured so, its statements fail after some seconds.
        """
        return

    def fenced(self, query: Select[Any]) -> Select[Any] | None:
        """Return a query that the planner keeps as one within another.

        None where it would not do so to our harm.
        """
        return None

    @abstractmethod
    def moment(self, now: datetime | None, plus: float = 0.0) -> ColumnElement[datetime]:
        """Return `now` (None: the database's clock) plus some seconds, as an expression."""

    @abstractmethod
    def among(self, column: ColumnElement[Id], values: Sequence[Id]) -> ColumnElement[bool]:
        """Return whether a column is one of `values`, of which there may be any number."""

    @abstractmethod
    def has_tag(self, tags: ColumnElement[Any], tag: str) -> ColumnElement[bool]:
        """Return whether a JSON array of texts, or NULL, holds `tag`."""

    @abstractmethod
    def has_tag_like(self, tags: ColumnElement[Any], pattern: str) -> ColumnElement[bool]:
        """Return whether a JSON array of texts, or NULL, holds one that fits; see `is_like`."""

    def is_like(self, column: ColumnElement[Any], pattern: str) -> ColumnElement[bool]:
        """Return whether a text fits a pattern, in which `*` is any characters, or none."""
        return column.like(like_pattern(pattern), escape=LIKE_ESCAPE)

    @abstractmethod
    def has_argument(
        self, args: ColumnElement[Any], name: str, value: Scalar
    ) -> ColumnElement[bool]:
        """Return whether the JSON object of a job's arguments has one with this value."""

    @abstractmethod
    def argument(self, args: ColumnElement[Any], name: str) -> ColumnElement[Any]:
        """Return what a JSON object has of this name, to look into; NULL if that is no object.

        NULL, too, if the first of these is NULL, no object, or what the database cannot read.
        """

    def held_by(self, worker: int) -> ColumnElement[bool]:
        """Return the condition on `mutirao_live` that a worker holds the job; it uses an index."""
        return live.c.worker == worker

    def running_near(self) -> Select[int] | None:
        """Return a query of the ids of jobs that run, among those that are likely to.

        None where an index knows what runs.
        """
        return None

    def to_cancel_by(self, worker: int) -> ColumnElement[bool]:
        """Return the condition on `mutirao_live` that a worker is to cancel the job."""
        return and_(self.held_by(worker), live.c.cancel == true())

    def has_to_cancel(self, worker: int) -> ColumnElement[bool]:
        """Return whether there is such a job, as an expression."""
        return exists().where(self.to_cancel_by(worker))

    @abstractmethod
    def insert_unless_exists(self, table: Table) -> Insert:
        """Return an INSERT that does nothing, and counts no row, where the key is taken."""

    def write_new(self, conn: Connection, table: Table, row: dict[str, Any]) -> bool:
        """Insert a row unless its key is taken; return whether it was inserted.

        By the row that is returned: not every driver reports how many an INSERT has written.
        """
        [first, *_] = table.primary_key.columns
        write = self.insert_unless_exists(table).values(**row).returning(first)
        return conn.execute(write).first() is not None

    def write_new_rows(
        self, conn: Connection, table: Table, rows: Sequence[dict[str, Any]]
    ) -> set[Any]:
        """Insert those rows whose keys are free; return their keys. All have the same columns."""
        if not rows:
            return set()
        [first, *_] = table.primary_key.columns
        write = self.insert_unless_exists(table).returning(first)
        return {*conn.scalars(write, list(rows))}

    def put_row(
        self,
        conn: Connection,
        table: Table,
        row: dict[str, Any],
        new: Mapping[str, Any] | None = None,
    ) -> None:
        """Insert a row, or change the one of its key.

        Parameters:
            row: the values, with those of the key.
            new: what only a new row is given.
        """
        if self.write_new(conn, table, {**row, **(new or {})}):
            return
        its = table.primary_key.columns
        values = {name: value for name, value in row.items() if name not in its}
        mine = (column == row[column.name] for column in its)
        conn.execute(update(table).where(*mine).values(**values))

    def update_returning(
        self, conn: Connection, change: Update, *wanted: ColumnElement[Any]
    ) -> Row[Any] | None:
        """Change one row and return expressions; None where there is no such row."""
        return conn.execute(change.returning(*wanted)).first()

    def update_free(
        self, conn: Connection, table: Table, which: ColumnElement[bool], values: dict[str, Any]
    ) -> None:
        """Change those rows of a table that are not locked, and wait for none. One statement."""
        [key] = table.primary_key.columns
        free = select(key).where(which).order_by(key).with_for_update(skip_locked=True)
        conn.execute(update(table).where(key.in_(free)).values(**values))

    def came_late(self, finished_at: ColumnElement[datetime]) -> ColumnElement[Any]:
        """Return the value of an attempt's `came_late`, unless the database sets it itself."""
        return null()

    def before_looking_for_old(self, conn: Connection) -> None:
        """Prevent others from adding up ended attempts, if that may deadlock with pruning.

        It is called while no row is locked yet.
        """
        return

    def before_pruning(self, conn: Connection, jobs: Sequence[int]) -> None:
        """Prepare the deletion of finished jobs, and of their attempts, in this transaction.

        Takes them from the number of those kept, unless something in the database does.
        """
        return

    def hold_live(self, *columns: ColumnElement[Any], ids: Sequence[int]) -> Select[Any]:
        """Return a query of live rows by a list of ids, in their order, that is to lock them."""
        found = select(*columns).where(self.among(live.c.id, ids)).order_by(live.c.id)
        return self.by_ids(found, live)

    def by_ids(self, found: Select[Any], table: Table) -> Select[Any]:
        """Return a query in the order of a table's ids that locks its rows in that order, too."""
        return found

    def update_live(self) -> Update:
        """Return an UPDATE of live rows by a list of ids."""
        return self.update_by_ids(live)

    def update_by_ids(self, table: Table) -> Update:
        """Return an UPDATE of rows by a list of their ids, which looks at no others."""
        return update(table)

    def delete_rows(
        self, conn: Connection, column: Column[int], ids: Sequence[int], index: str = "PRIMARY"
    ) -> None:
        """Delete the rows whose `column`, the first one of `index`, is one of `ids`."""
        conn.execute(delete(column.table).where(self.among(column, ids)))

    def deliver_next(
        self, conn: Connection, publication: int, topics: Sequence[str], after: str, most: int
    ) -> tuple[str | None, bool, list[str]]:
        """Make the deliveries of a publication for the next subscriptions, where `delivers`.

        Returns the last one, or None if there are no others; whether any delivery was made; and
        those that are not plain: they have none yet.
        """
        raise NotImplementedError

    def deliver(self, conn: Connection, publication: int, subscriptions: Sequence[str]) -> None:
        """Make the deliveries of a publication for these, where `delivers`."""
        raise NotImplementedError

    def fan_out(
        self, publication: Job, done: Settlement, after: str | None, first: int
    ) -> Query[tuple[bool, str | None]]:
        """Make the next deliveries of a publication, and complete it with the last ones.

        A transaction of its own, where `delivers`.

        Parameters:
            after: the last subscription that has its delivery; None: look for it.
            first: how many subscriptions the first part has.

        Returns whether that was possible, and the last subscription, or None if all have one.
        Subscriptions about which the client has to decide make it impossible; nothing is done then.
        """
        raise NotImplementedError

    def before_writing(self, conn: Connection) -> dict[str, int]:
        """Return what parameters of `written` are to be, before jobs are written."""
        return {}

    def make_live(self, conn: Connection, beginning: str) -> None:
        """Make the jobs live that were written just now, unless something in the database does.

        Parameters:
            beginning: of their metadata, which others that are written meanwhile do not have.
        """
        return

    def written(self, beginning: ColumnElement[str]) -> ColumnElement[bool]:
        """Return whether a job is one of those that were written just now, if there are any.

        Where the database makes no deliveries by itself.

        Parameters:
            beginning: see `make_live`.
        """
        raise NotImplementedError

    def by_topic(self, subscriptions: Select[Any]) -> Select[Any]:
        """Return a query of subscriptions by topic and tenant, which reads them by that index."""
        return subscriptions

    def place_inserted(self, conn: Connection) -> None:
        """Make live what other programs have inserted, unless something in the database does.

        In a transaction of the store.
        """
        return

    @abstractmethod
    def count_retry(self, conn: Connection) -> None:
        """Count the retry of a transaction that the database aborted for another one.

        Outside a transaction.
        """

    @abstractmethod
    def refresh_statistics(self, conn: Connection) -> None:
        """Update the planner's statistics. Outside a transaction."""
