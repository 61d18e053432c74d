"""The frozen values of a job, from the request to the run.

`NewJob` is a job to be enqueued, and `Job` is what a handler receives about the job it runs.
`claim` has the claimed job, `outcome` the end of an attempt, `records` the form for people.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, Self, TypeVar, overload

from mutirao.errors import InvalidProgress, WrongState
from mutirao.model.jobs.claim import Claim as Claim, FairClaim as FairClaim
from mutirao.model.jobs.job_facts import JobFacts
from mutirao.model.jobs.job_schedule import JobSchedule, SchedulePauser, schedule_of
from mutirao.model.jobs.lanes import (
    FAIR_LANE_PREFIX,
    Lane as Lane,
    LaneHead as LaneHead,
    Wake as Wake,
)
from mutirao.model.jobs.progress import finite
from mutirao.model.jobs.states import (
    FINAL_OUTCOMES as FINAL_OUTCOMES,
    FINAL_STATES as FINAL_STATES,
    UNCOUNTED_OUTCOMES as UNCOUNTED_OUTCOMES,
    JobState as JobState,
    OutcomeKind as OutcomeKind,
)
from mutirao.model.jobs.workers import Beat as Beat, NewWorker as NewWorker
from mutirao.model.keys.uniqueness import Unique

if TYPE_CHECKING:
    from sqlalchemy import Connection
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession
    from sqlalchemy.orm import Session


Sync = TypeVar("Sync", covariant=True)
Async = TypeVar("Async", covariant=True)

DEFAULT_QUEUE = "default"
MAX_QUEUE_NAME = 100
MAX_TASK_NAME = 200
MAX_KEY = 200
MAX_ERROR_TEXT = 8_000  # characters kept of an error: its beginning and its end
MAX_PAYLOAD = 1 << 20  # bytes of JSON
MIN_PRIORITY, MAX_PRIORITY = -32_768, 32_767  # a 16-bit integer in every database


class Checked:
    """The results of checks on a job's options, shared by jobs that differ only in their arguments.

    `max_payload`: the limit that the options were found to fit. `written`: the form of the options
    for each kind of database, reused for the next job.
    """

    __slots__ = ("max_payload", "written")

    def __init__(self) -> None:
        self.max_payload: int | None = None
        self.written: dict[str, Any] = {}


@dataclass(frozen=True, kw_only=True)
class NewJob:
    """A job to be enqueued: one call of a task, checked and ready to be written.

    `args` is the JSON object of the arguments by name, as text. At most one of `run_at` (aware) and
    `delay` (seconds, counted on the database's clock) is given; neither means now. `max_attempts`
    and `timeout` (seconds) are None where the task's own settings apply. A `key` without `unique`
    is a label. Jobs of a task with equal arguments have the same `fingerprint`. Arguments that are
    another step's result are not in `args` but in `refers`, as trees of
    `mutirao.model.graphs.graph.Step`. `fair_by` is the argument whose values are served fairly.
    `expires` (seconds) is its lifetime, if that was given as a duration; its metadata has the
    moment at which it expires, see `expiry`.
    """

    task: str
    args: str = "{}"
    queue: str = DEFAULT_QUEUE
    priority: int = 0
    run_at: datetime | None = None
    delay: float | None = None
    max_attempts: int | None = None
    timeout: float | None = None
    key: str | None = None
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    traceparent: str | None = None
    tenant: str | None = None
    group: str | None = None
    redrive_of: int | None = None
    on_dead_of: int | None = None
    fingerprint: str | None = None
    unique: Unique | None = None
    refers: Mapping[str, Any] = field(default_factory=dict)
    fair_by: str | None = None
    expires: float | None = None
    checked: Checked = field(default_factory=Checked, init=False, repr=False, compare=False)

    @property
    def lane(self) -> str:
        """The name of the lane in which the job will wait."""
        return self.queue if self.fair_by is None else FAIR_LANE_PREFIX + self.queue

    def with_args(self, args: str) -> Self:
        """Return the same job with other arguments; takes an eighth of the time of `replace`."""
        values = self.__dict__.copy()
        values["args"] = args
        job = object.__new__(type(self))
        object.__setattr__(job, "__dict__", values)
        return job


class KeptResult(NamedTuple):
    """A result to be stored: JSON, kept `seconds` after the end (None: like the history)."""

    json: str
    seconds: float | None = None


Keep = Callable[[Any], KeptResult]  # converts a result to the stored form
Report = Callable[[Claim, float, float | None, str | None], None]  # done, of, note


# What `job.transaction()` gives: a session or connection of SQLAlchemy, or the driver's connection.
Gives = Literal["session", "connection", "driver"]


class Using(NamedTuple):
    """An alternative result: a connection of the program's own, by its name in the program."""

    alias: str


class Transaction(
    AbstractContextManager[Sync, None], AbstractAsyncContextManager[Async, None], Protocol
):
    """The return value of `job.transaction()`: to be entered once, with `with` or `async with`."""


def no_tenants(job: "Job") -> "Transaction[Any, Any]":
    """Refuse the connection of a tenant if no function opens one."""
    raise WrongState(
        f"job {job.id} ({job.task}) asked for a tenant's connection, and nothing says where its"
        " database is: register a function with @app.tenant_database; handlers in other processes"
        " (process=True) have none"
    )


@dataclass(frozen=True, slots=True)
class Home:
    """A database.

    Parameters:
        database: its URL, without a password; empty if the store has none.
        tenant: opens a transaction in the database of a job's tenant.
    """

    database: str = ""
    tenant: "Callable[[Job], Transaction[Any, Any]]" = no_tenants


NOWHERE = Home()


class Attempt(Protocol):
    """The attempt that a transaction completes, as the transaction sees it."""

    def started_ago(self) -> float:
        """Return the seconds since the handler was started."""
        ...

    def mark_settled(self, woken: Sequence[Wake] = ()) -> None:
        """Record that the commit succeeded, so that the job needs no settling; called once.

        `woken`: the lanes to which blocked jobs returned, if any.
        """
        ...


class SlotAttempt(Attempt, Protocol):
    """An attempt that has a slot of a worker."""

    def lend_slot(self) -> None:
        """Lend its slot to another attempt, as this one only waits; in the event loop.

        Does nothing if as many as there are slots are lent: at most twice as many attempts run.
        """
        ...

    def error(self) -> BaseException | None:
        """Return the error that has ended it, if it is at hand."""
        ...


class Job(JobFacts):
    """The job that a handler runs, injected if its first parameter is annotated `Job`.

    Properties read the claim on access: most handlers never use them, and a worker makes a `Job`
    for every attempt. `max_attempts` and `timeout` (seconds) are the ones in force.
    """

    __slots__ = ("_alive", "_attempt", "_begin", "_home", "_keep", "_pauser", "_report", "_result",
                 "_shall_end", "max_attempts", "timeout")  # fmt: skip

    def __init__(
        self,
        claim: Claim,
        max_attempts: int,
        timeout: float | None,
        begin: Callable[["Job", Gives | Using], "Transaction[Any, Any]"],
        report: "Report | None" = None,
        keep: "Keep | None" = None,
        shall_end: Callable[[], bool] | None = None,
        pauser: SchedulePauser | None = None,
        home: Home = NOWHERE,
        alive: Callable[[], object] | None = None,
        attempt: SlotAttempt | None = None,
    ) -> None:
        """Set the callbacks.

        `report` receives progress; `keep` converts a result to store; `shall_end` returns whether
        the attempt shall end; `home` is its database; `alive` receives signs of life; `attempt`
        is this one, for tasks of our own that complete their jobs themselves.
        """
        self._alive, self._attempt = alive, attempt
        self._pauser, self._home = pauser, home
        self._claim, self._begin, self._report, self._keep = claim, begin, report, keep
        self._result: KeptResult | None = None
        self._shall_end = shall_end
        self.max_attempts = max_attempts
        self.timeout = timeout

    def __repr__(self) -> str:
        return f"<Job {self.id} {self.task!r} attempt {self.attempt} run {self.run}>"

    @property
    def cancelled(self) -> bool:
        """True when this attempt shall end: it was cancelled, it timed out, or its worker stops.

        For long plain functions, which cannot be ended from outside: ask at intervals, and return.
        Makes no query; any thread may read it. A handler that returns after it has read True has
        not succeeded: if the worker stops, its job is given back, which costs no attempt, unless
        `transaction()` has completed it. Always False in a child process, which is killed instead.
        """
        return self._shall_end is not None and self._shall_end()

    @property
    def database(self) -> str:
        """The URL of the job's database, without a password: ids are unique within one."""
        return self._home.database

    @property
    def schedule(self) -> JobSchedule | None:
        """The schedule that made the job; None if none did."""
        return schedule_of(self.metadata, self.id, self._pauser)

    def progress(self, done: float, *, of: float | None = None, note: str | None = None) -> None:
        """Report the progress of this attempt: `done` units, `of` so many in all.

        Returns at once and never waits. Progress is written at most once a second, and the last
        report shortly after; people see it in `mutirao show` and in the views. At most 500
        characters of the note are kept.

        Raises:
            InvalidProgress: a value is not a finite number, or the note is not text.
        """
        report = finite("done", done), None if of is None else finite("of", of)
        if note is not None and not isinstance(note, str):
            raise InvalidProgress(f"progress was given the note {note!r:.100}; give text, or None")
        self.alive()
        if self._report is not None:
            self._report(self._claim, *report, note)

    def alive(self) -> None:
        """Give a sign of life, for the `stall_timeout` of the task; `progress` gives one, too.

        Returns at once. Any thread may call it, and as often as it likes.
        """
        if self._alive is not None:
            self._alive()

    def returns(self, value: Any) -> None:
        """Set the result inside `job.transaction()`, whose commit stores it, if results are kept.

        Without a transaction, the handler's return value is the result.

        Raises:
            InvalidResult: the value is too large, or JSON cannot represent it.
        """
        if self._keep is not None:
            self._result = self._keep(value)

    @overload
    def transaction(
        self, *, session: Literal[True] = True
    ) -> "Transaction[Session, AsyncSession]": ...
    @overload
    def transaction(
        self, *, session: Literal[False]
    ) -> "Transaction[Connection, AsyncConnection]": ...
    @overload
    def transaction(self, *, connection: Literal[True]) -> "Transaction[Any, Any]": ...
    @overload
    def transaction(self, *, using: str) -> "Transaction[Any, Any]": ...
    def transaction(
        self, *, session: bool = True, connection: bool = False, using: str | None = None
    ) -> "Transaction[Any, Any]":
        """Open a transaction whose commit also completes this job.

        `async with` in a coroutine gives SQLAlchemy's `AsyncSession` (with `session=False` an
        `AsyncConnection`), `with` in a plain handler a `Session` (`Connection`). With
        `connection=True` it gives the driver's own connection, which is faster: psycopg's
        `AsyncConnection` or `Connection`, asyncpg's or aiosqlite's `Connection`,
        `sqlite3.Connection`, or psycopg2's `connection`. The writes, the jobs enqueued through it
        and the job's success are in one commit, or none of them is.

        In a Django project, `using="default"` is `transaction.atomic(using="default")` on the
        handler's own connection, which it gives: all that the handler does with Django's ORM is in
        the commit that completes the job.

        Raises:
            StaleRun: on leaving the block, if the job was taken from this attempt meanwhile;
                everything is rolled back.
            WrongState: the handler runs in another process; or `using` is given where the program
                has no connections of its own. With `connection=True` also at `commit` and
                `rollback` inside, and on leaving the block if it is ended already.
        """
        if using is not None:
            return self._begin(self, Using(using))
        sqlalchemy: Gives = "session" if session else "connection"
        return self._begin(self, "driver" if connection else sqlalchemy)

    def tenant_connection(self) -> "Transaction[Connection, AsyncConnection]":
        """Open a transaction in the database that `@app.tenant_database` names for this job.

        `with` in a plain handler gives SQLAlchemy's `Connection`, `async with` in a coroutine an
        `AsyncConnection`. The end of the block commits, an error rolls back. The job completes in
        another commit, after that one: if the worker is killed between them, the handler runs
        again, so its writes there must tolerate a repetition.

        Raises:
            WrongState: no such function is registered, or the handler runs in another process.
        """
        return self._home.tenant(self)
