"""What is asked of a database as steps without I/O, and the two pumps that drive them.

A body is a generator: it yields what it wants of the database and is sent the rows. So it is
written once, and runs over synchronous and asynchronous drivers alike. Errors are thrown into
it, which lets it undo what it has begun.
"""

from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple, Protocol, TypeVar

from mutirao.job import NewJob

Row = tuple[Any, ...]
Rows = list[Row]
R = TypeVar("R")


class Execute(NamedTuple):
    """One statement and its parameters. Placeholders: `%s` on PostgreSQL, `?` on SQLite.

    `answers` says whether it returns rows: in psycopg's pipeline mode a cursor cannot tell.
    """

    sql: str
    params: Row = ()
    answers: bool = True


def command(sql: str) -> Execute:
    """Return a statement without parameters that returns no rows."""
    return Execute(sql, answers=False)


@dataclass(frozen=True, slots=True)
class Load:
    """Many rows for one table, by the fastest way the driver has. Answered with no rows.

    A row is what the database's own way takes: on SQLite a tuple, on PostgreSQL the bytes of COPY's
    binary format. Rows may be made while they are sent, but not by what uses the connection.
    """

    table: str
    columns: tuple[str, ...]
    rows: Iterable[Any]


@dataclass(frozen=True, slots=True)
class Autocommits:
    """Would each statement commit by itself: autocommit, outside any transaction?

    Answered with one row of one bool. To be asked after a first statement, because some layers
    begin their transaction only with that.
    """


Request = Execute | Load | Autocommits
Asking = Generator[Request, Rows, R]
Steps = Asking[list[int]]  # those that enqueue


class Caller(Protocol):
    """A connection that a body writes through."""

    @property
    def database(self) -> str:
        """The database product, as its users write it: PostgreSQL, SQLite."""
        ...

    def native(self, sql: str) -> str:
        """Return a statement with the placeholders of the driver."""
        ...


class SyncCaller(Caller, Protocol):
    """A caller whose driver blocks."""

    def handle(self, request: Request) -> Rows:
        """Do what is asked and return plain tuples, whatever rows the connection makes."""
        ...


class AsyncCaller(Caller, Protocol):
    """A caller whose driver is awaited."""

    async def handle(self, request: Request) -> Rows:
        """As `SyncCaller.handle`."""
        ...


Work = Callable[[Caller], Steps]


def drive(steps: Asking[R], caller: SyncCaller) -> R:
    """Run steps over a blocking driver and return what they do."""
    try:
        request = next(steps)
        while True:
            try:
                rows = caller.handle(request)
            except BaseException as error:  # noqa: BLE001 (the body decides, and raises it again)
                request = steps.throw(error)
            else:
                request = steps.send(rows)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


async def adrive(steps: Asking[R], caller: AsyncCaller) -> R:
    """Run steps over an awaited driver and return what they do."""
    try:
        request = next(steps)
        while True:
            try:
                rows = await caller.handle(request)
            except BaseException as error:  # noqa: BLE001 (as in `drive`)
                request = steps.throw(error)
            else:
                request = steps.send(rows)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class Bracket:
    """Statements around steps, so that all of these are written or none of them."""

    begin: str
    keep: str
    undo: tuple[str, ...]

    def around(self, steps: Steps) -> Steps:
        """Return `steps` in this bracket; undone when they fail, whatever the reason."""
        yield command(self.begin)
        try:
            ids = yield from steps
            yield command(self.keep)
        except BaseException as error:
            yield from self._undo(error)
            raise
        return ids

    def _undo(self, error: BaseException) -> Generator[Request, Rows, None]:
        try:
            for statement in self.undo:
                yield command(statement)
        except Exception as failure:  # noqa: BLE001 (told with the error that matters more)
            error.add_note(f"Undoing what was enqueued failed too: {failure!r}")


SAVEPOINT = Bracket(
    "SAVEPOINT mutirao_enqueue",
    "RELEASE SAVEPOINT mutirao_enqueue",
    ("ROLLBACK TO SAVEPOINT mutirao_enqueue", "RELEASE SAVEPOINT mutirao_enqueue"),
)


def take(jobs: Iterator[NewJob], count: int, characters: int) -> list[NewJob]:
    """Take the next jobs: at most `count`, fewer when their arguments pass `characters`."""
    taken: list[NewJob] = []
    for job in islice(jobs, count):
        taken.append(job)
        characters -= len(job.args)
        if characters <= 0:
            break
    return taken


def placed(
    jobs: Iterable[NewJob],
    plain: Iterator[int],
    place: Callable[[NewJob], Generator[Request, Rows, int]],
) -> Steps:
    """Return the ids of `jobs`, in order: `plain` has those of jobs without a unique key.

    The others are placed one by one, each after what those before it have done.
    """
    ids: list[int] = []
    for job in jobs:
        id = next(plain) if job.unique is None else (yield from place(job))
        ids.append(id)
    return ids
