"""The SQL that the rules need from a dialect: `?` is a bound value, moments are microseconds."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Any, ClassVar, NamedTuple

from mutirao.model.keys.uniqueness import FOREVER, PARKED
from mutirao.sql.drivers.steps import Bracket, Execute, Query, Row, execute_many
from mutirao.sql.schema.types import to_micros

NO_LIMIT = 2_147_483_647  # as a LIMIT
TIMES = ("run_at", "enqueued_at")  # of a job: when it is due, and when it was enqueued


class Condition(NamedTuple):
    """A condition for WHERE, and its values."""

    sql: str
    values: Row


class Due(NamedTuple):
    """When a job is due: at a moment, or so many microseconds after it is enqueued."""

    at: int | None
    after: int = 0

    def reckoned(self, now: int) -> int:
        """Return the moment, for a job that is enqueued now."""
        return now + self.after if self.at is None else self.at


class Words(ABC):
    """The SQL of one kind of database.

    `locks`: whether rows have to be locked before they are read. Otherwise a transaction keeps all
    other writers out, from its beginning on.
    `hold`, `hold_free`: end a SELECT that locks its rows until the transaction ends; the second
    skips rows that are locked.
    `hold_now`: ends one that fails where a row is locked; None: it waits.
    `by_key`: follows the name of a table of which rows are changed by a list of ids, if the planner
    must be forced to use its primary key.
    `by_lane`: follows `mutirao_live` where due jobs are locked, if the planner must be
    forced to read them in their order, and no others.
    `forever`: the value for infinity, if a column of numbers has none.
    `turn`: the column of `mutirao_live` that has whose turn a job takes; `has_turn`: the condition
    that it takes one, as the index of turns has it.
    `placed`: the condition that a row `j` of `mutirao_job` has, or had, its row of `mutirao_live`.
    `clock`: the server's clock, as an expression inside a query; None: this process's.
    `parks_unjudged`: jobs inserted under a supersede rule are parked until the rule is asked, as
    the database does not know whether it was.
    """

    locks: ClassVar[bool] = False
    hold: ClassVar[str] = ""
    hold_free: ClassVar[str] = ""
    hold_now: ClassVar[str | None] = None
    by_key: ClassVar[str] = ""
    quote: ClassVar[str] = '"'
    by_lane: ClassVar[str] = ""
    forever: ClassVar[float] = FOREVER
    turn: ClassVar[str] = "fairness"
    has_turn: ClassVar[str] = f"fairness <> '' AND run_at < {to_micros(PARKED)}"
    placed: ClassVar[str] = "true"
    clock: ClassVar[str | None] = None
    parks_unjudged: ClassVar[bool] = False
    transaction: ClassVar[Bracket]

    @abstractmethod
    def moment(self, now: datetime | None) -> Query[int]:
        """Return `now`, or the time of the database's clock."""

    @abstractmethod
    def among(self, column: str, values: Collection[int] | Collection[str]) -> Condition:
        """Return the condition that a column is one of `values`, of which there may be many."""

    def since(self, run_at: int, id: int) -> Condition:
        """Return the condition that a live row is at this place of its lane, or behind it."""
        return Condition("(run_at, id) >= (?, ?)", (run_at, id))

    @abstractmethod
    def by_index(self, name: str) -> str:
        """Return the SQL after a table that is to be read by an index."""

    @abstractmethod
    def on_conflict(self, key: Sequence[str], changed: Sequence[str]) -> str:
        """Return what ends an INSERT that changes these columns of a row whose key is there.

        Without columns, it leaves that row alone, but for a lock.
        """

    @abstractmethod
    def write_job(self, columns: Sequence[str], row: Row) -> Query[int]:
        """Write a row of `mutirao_job` and return its id."""

    @abstractmethod
    def write_jobs(self, columns: Sequence[str], rows: Sequence[Row]) -> Query[list[int]]:
        """Write many, and return their ids in order."""

    def write_alone(self, columns: Sequence[str], row: Row, due: Due) -> Query[int]:
        """Write one job, all of it or nothing, and return its id; nothing else is written with it.

        `columns` are without its times.
        """
        now = yield from self.moment(None)
        return (yield from self.write_job((*TIMES, *columns), (due.reckoned(now), now, *row)))

    @abstractmethod
    def shown(self, moment: int) -> Any:
        """Return a moment in the form in which views show it."""

    def closed(self, until: int, latest: int) -> Query[int]:
        """Return a moment of at most `latest`: every attempt that ended before it is committed.

        `until`: what was returned last. Where a transaction keeps all other writers out, nothing is
        under way.
        """
        yield from ()
        return latest

    def late_before(self, oldest: int, moment: int) -> Query[int | None]:
        """Return before which moment attempts came too late to be added up with their hour.

        `oldest`: when the first of those ended that are about to be written, as it is `moment` now.
        None: none of them did, or something in the database sees to it.
        """
        yield from ()
        return None

    def before_savepoint(self) -> Query[None]:
        """Prepare a savepoint in a transaction that others began."""
        yield from ()

    def keep_limits(self) -> Query[None]:
        """Wait until no transaction changes limits, and prevent changes until this one ends."""
        yield from ()

    def insert(self, table: str, columns: Iterable[str]) -> str:
        """Return the INSERT of one row."""
        quoted = [f"{self.quote}{column}{self.quote}" for column in columns]
        marks = ", ".join("?" for _ in quoted)
        return f"INSERT INTO {table} ({', '.join(quoted)}) VALUES ({marks})"

    def upsert(
        self, table: str, columns: Sequence[str], key: Sequence[str], changed: Sequence[str] = ()
    ) -> str:
        """Return the INSERT of one row that changes some columns where the key is there."""
        return f"{self.insert(table, columns)} {self.on_conflict(key, changed)}"

    def drop_live(self, jobs: Collection[int], *, waiting: bool = False) -> Execute:
        """Return the DELETE of the live rows of these jobs, which are held.

        It locks no others, not even to look at them. `waiting`: only of those that wait.
        """
        which, values = self.among("id", jobs)
        if waiting:
            which += " AND worker IS NULL"
        return Execute(f"DELETE FROM mutirao_live WHERE {which}", values, answers=False)

    def drop(self, table: str, jobs: Collection[int]) -> Query[None]:
        """Delete what a table whose primary key is `job` has of these jobs: rows that are there.

        Where others may be kept waiting by the gaps that are locked for those that are not there,
        say `fill` before.
        """
        yield execute_many(f"DELETE FROM {table} WHERE job = ?", [(job,) for job in jobs])

    def move(self, moments: Sequence[tuple[int, int]]) -> Execute:
        """Return the statement that gives waiting jobs other moments: a moment and a job each."""
        return execute_many(
            "UPDATE mutirao_live SET run_at = ? WHERE id = ? AND worker IS NULL", moments
        )

    def free(self, slots: Sequence[tuple[int, int]]) -> Execute:
        """Return what deletes slots: a job and a counter each."""
        return execute_many("DELETE FROM mutirao_slot WHERE job = ? AND counter = ?", slots)

    def fill(self, table: str, jobs: Collection[int]) -> Query[None]:
        """Lock what a table whose primary key is `job` has of these jobs.

        Puts a row of zeros where it has none, as a missing row cannot be locked without a gap lock.
        Where no rows are locked, it does nothing.
        """
        yield from ()

    def hold_jobs(
        self,
        jobs: Collection[int],
        *,
        free: bool = False,
        now: bool = False,
        due: tuple[str, int] | None = None,
    ) -> Query[set[int]]:
        """Lock the live rows of these jobs in order; return which there are.

        `free`: but those that another transaction has, and those that run. `now`: or fail, where
        another transaction has one, and nobody may wait who has another. `due`: but those that are
        not in this lane and due at this moment; since they were found, others may have moved them.
        """
        if not self.locks or not jobs:
            return set(jobs)
        return {row[0] for row in (yield self.holding(jobs, free=free, now=now, due=due))}

    def hold_some(self, jobs: Collection[int]) -> Query[set[int]]:
        """Lock live rows, of jobs that run, too; return those that are locked.

        It waits for locked rows only where that cannot make a deadlock.
        """
        if not self.locks or not jobs:
            return set(jobs)
        hold = self.hold if self.hold_now is None else self.hold_free
        which, values = self.among("id", jobs)
        sql = f"SELECT id FROM mutirao_live {self.by_key} WHERE {which} ORDER BY id{hold}"
        return {row[0] for row in (yield Execute(sql, values))}

    def holding(
        self,
        jobs: Collection[int],
        *,
        free: bool = False,
        now: bool = False,
        due: tuple[str, int] | None = None,
    ) -> Execute:
        """Return what locks live rows, and answers with their ids; see `hold_jobs`."""
        which, values = self.among("id", jobs)
        waiting = " AND worker IS NULL" if free else ""
        if due is not None:
            waiting, values = f"{waiting} AND queue = ? AND run_at <= ?", (*values, *due)
        return Execute(
            f"SELECT id FROM mutirao_live {self.by_key} WHERE {which}{waiting} ORDER BY id"
            f"{self.hold_free if free else (now and self.hold_now) or self.hold}",
            values,
        )
