"""Database calls without I/O: generators that yield statements, and the functions that run them.

A body is a generator: it yields requests to the database and receives the rows. So it is written
once, and runs on synchronous and asynchronous drivers alike. Errors are thrown into it, so that it
can undo what it has begun.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple, Protocol, TypeVar

from mutirao.model.jobs.job import NewJob

Row = tuple[Any, ...]
Rows = list[Row]
R = TypeVar("R")

MAX_JOBS_IN_MEMORY = 5_000  # of one call; the rest is read when these are written
MAX_CHARACTERS_IN_MEMORY = 4 << 20  # of the arguments of these jobs


WAITS: Rows = []  # the rows of what waits, by which `pipelined` knows it


@dataclass(slots=True)
class Reply:
    """The rows of a statement that may travel with another one: set once that is answered."""

    found: Rows | None = None

    @property
    def rows(self) -> Rows:
        """Return the rows.

        Raises:
            LookupError: nothing was queried since, so they have not come.
        """
        if self.found is None:
            raise LookupError("these rows come with those of the next query; send that first")
        return self.found


class Execute(NamedTuple):
    """One statement and its parameters. Placeholders: `%s` on PostgreSQL, `?` on SQLite.

    `answers`: True if it returns rows; in psycopg's pipeline mode a cursor does not know. `many`:
    True if `params` are rows, for each of which the statement is executed; not on PostgreSQL, where
    arrays are sent instead. `commits`: True if it is the last statement, so that the COMMIT may be
    sent with it; the transaction is then committed or still open. `then`: statements that are sent
    with it, where the result of `Autocommits` allows that. The server stops at the first that
    fails; the rows are those of the last that returns any. `into`: gets its rows, too; see
    `pipelined`.
    """

    sql: str
    params: Row = ()
    answers: bool = True
    many: bool = False
    commits: bool = False
    then: "tuple[Execute, ...]" = ()
    into: Reply | None = None


def execute_many(sql: str, rows: Iterable[Row]) -> Execute:
    """Return a statement that is executed for each of these rows, and returns no rows."""
    return Execute(sql, tuple(rows), answers=False, many=True)


def pipelined(request: Execute) -> "Query[Reply]":
    """Send a statement with the next query where possible; return where its rows will be."""
    reply = Reply()
    rows = yield request._replace(into=reply)
    if rows is not WAITS:
        reply.found = rows
    return reply


def all_of(requests: Sequence[Execute]) -> "Query[list[Rows]]":
    """Send several statements, in one message where possible; return the rows of each."""
    if not requests:
        return []
    replies = list[Reply]()
    for request in requests[:-1]:
        replies.append((yield from pipelined(request)))
    last = yield requests[-1]
    return [*(reply.rows for reply in replies), last]


def command(sql: str) -> Execute:
    """Return a statement without parameters that returns no rows."""
    return Execute(sql, answers=False)


COMMIT, ROLLBACK = command("COMMIT"), command("ROLLBACK")  # on a lent connection: its own methods


@dataclass(frozen=True, slots=True)
class Load:
    """Many rows for one table, written in the driver's fastest way. Returns no rows.

    A row is in the form that the database takes: a tuple on SQLite, the bytes of COPY's binary
    format on PostgreSQL. Rows may be made while they are sent, but not by using the connection.
    `schema` is that of the table, if one was chosen.
    """

    table: str
    columns: tuple[str, ...]
    rows: Iterable[Any]
    schema: str | None = None


@dataclass(frozen=True, slots=True)
class Autocommits:
    """The question whether each statement commits by itself: autocommit, in no transaction.

    The result is one row of one bool. Ask it after a first statement, because some layers begin
    their transaction only with that. A connection of ours that takes several statements at once
    (`Execute.then`) returns a second True.
    """


Request = Execute | Load | Autocommits
Query = Generator[Request, Rows, R]
Steps = Query[list[int]]  # steps that enqueue


class Driver(Protocol):
    """A connection through which a body writes."""

    @property
    def database(self) -> str:
        """The database product, as its users write it: PostgreSQL, SQLite."""
        ...

    def native(self, sql: str) -> str:
        """Return a statement with the placeholders of the driver."""
        ...

    def drop(self) -> None:
        """End the connection, or what it does, from outside; see `kinds.drop`."""
        ...


class SyncDriver(Driver, Protocol):
    """An adapter of a driver that blocks."""

    def handle(self, request: Request) -> Rows:
        """Perform a request and return plain tuples, whatever row class the connection uses."""
        ...


class AsyncDriver(Driver, Protocol):
    """An adapter of a driver that is awaited."""

    async def handle(self, request: Request) -> Rows:
        """Perform a request and return plain tuples; see `SyncDriver.handle`."""
        ...


Work = Callable[[Driver], Steps]


def answered(steps: Query[R], answer: Callable[[Request], Query[Rows]]) -> Query[R]:
    """Return steps that do the same, but ask for what `answer` does instead of each request."""
    try:
        request = next(steps)
        while True:
            try:
                rows = yield from answer(request)
            except BaseException as error:  # noqa: BLE001 (the body receives it, and raises it again)
                request = steps.throw(error)
            else:
                request = steps.send(rows)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


def drive(steps: Query[R], driver: SyncDriver) -> R:
    """Run steps on a blocking driver and return their result."""
    try:
        request = next(steps)
        while True:
            try:
                rows = driver.handle(request)
            except BaseException as error:  # noqa: BLE001 (the body receives it, and raises it again)
                request = steps.throw(error)
            else:
                request = steps.send(rows)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


async def adrive(steps: Query[R], driver: AsyncDriver) -> R:
    """Run steps on an awaited driver and return their result."""
    try:
        request = next(steps)
        while True:
            try:
                rows = await driver.handle(request)
            except BaseException as error:  # noqa: BLE001 (as in `drive`)
                request = steps.throw(error)
            else:
                request = steps.send(rows)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class Bracket:
    """Statements around steps, so that all of the steps are written or none of them."""

    begin: str
    keep: str
    back: tuple[str, ...]

    def around(self, steps: Query[R]) -> Query[R]:
        """Return `steps` between these statements; they are undone if they fail for any reason."""
        yield command(self.begin)
        try:
            found = yield from steps
            yield command(self.keep)
        except BaseException as error:
            yield from self.undo(error)
            raise
        return found

    def joined(self, *statements: Execute) -> Query[Rows]:
        """Send these statements, and those around them, in one round trip; see `Execute.then`."""
        try:
            return (yield command(self.begin)._replace(then=(*statements, command(self.keep))))
        except BaseException as error:
            yield from self.undo(error)
            raise

    def undo(self, error: BaseException) -> Generator[Request, Rows, None]:
        """Undo the statements since the first; an error of that becomes a note of this one."""
        try:
            for statement in self.back:
                yield command(statement)
        except Exception as failure:  # noqa: BLE001 (added as a note to the original error)
            error.add_note(f"Undoing what was enqueued failed too: {failure!r}")


def savepoint(name: str) -> Bracket:
    """Return a bracket in a transaction. One within another has another name, or ends it."""
    release = f"RELEASE SAVEPOINT {name}"
    return Bracket(f"SAVEPOINT {name}", release, (f"ROLLBACK TO SAVEPOINT {name}", release))


ENQUEUE_SAVEPOINT = savepoint("mutirao_enqueue")
GRAPH_SAVEPOINT = savepoint("mutirao_graph")  # around what enqueues


def take(jobs: Iterator[NewJob], count: int | None = None) -> list[NewJob]:
    """Take the next jobs: at most `count`, or as many as are held in memory at a time.

    Takes fewer if their arguments reach `MAX_CHARACTERS_IN_MEMORY`.
    """
    taken: list[NewJob] = []
    characters = MAX_CHARACTERS_IN_MEMORY
    for job in islice(jobs, MAX_JOBS_IN_MEMORY if count is None else count):
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
    """Return the ids of `jobs`, in order; `plain` has the ids of those without a unique key.

    `place` writes the others one by one, each after the effects of the previous ones.
    """
    ids: list[int] = []
    for job in jobs:
        id = next(plain) if job.unique is None else (yield from place(job))
        ids.append(id)
    return ids
