"""The handle of an enqueued job, the conversion of results, and the check of `conn=`.

Nothing is stored unless it was requested: by a task with `keep_result`, or by a later step.
"""

from collections.abc import Coroutine
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum
from math import inf
from typing import Any, Final, Generic, Protocol, TypeVar, overload

from mutirao.errors import InvalidResult, InvalidTask, UnsupportedConnection, WrongState
from mutirao.model.jobs.job import KeptResult
from mutirao.model.jobs.retry import MAX_WAIT, seconds
from mutirao.model.keys.uniqueness import NOTHING_WRITTEN, How
from mutirao.tasks.signatures.conversion import UNFIT, to_json


class _NotGiven(Enum):
    NOT_GIVEN = "not given"

    def __repr__(self) -> str:
        return "<not given>"


NOT_GIVEN: Final = _NotGiven.NOT_GIVEN


def given(conn: object) -> object | None:
    """Return the connection that a call was given, or None if `conn=` was left out.

    Raises:
        UnsupportedConnection: `conn=None` was given. The job would be written in a transaction of
            its own, although the caller expects it in its own transaction.
    """
    if conn is NOT_GIVEN:
        return None
    if conn is None:
        raise UnsupportedConnection(
            "conn= is None; give the connection or session whose transaction the job joins, or"
            " leave conn= out to enqueue in a transaction of its own. (In Django, give"
            " connections[alias] itself: its .connection is None before the first query.)"
        )
    return conn


MAX_RESULT = 1 << 20  # bytes of JSON


def kept_result(task: str, value: Any, keep_for: float) -> KeptResult:
    """Return the stored form of a result, for `keep_for` seconds (inf: as long as the history).

    Raises:
        InvalidResult: JSON cannot represent it, or it is too large.
    """
    try:
        text = to_json(value)
    except UNFIT as unfit:
        raise InvalidResult(
            f"the result of task {task!r} is kept, and cannot be written as JSON: {unfit}; return"
            " plain data, such as an id"
        ) from None
    size = len(text.encode())
    if size > MAX_RESULT:
        raise InvalidResult(
            f"the result of task {task!r} takes too many bytes of JSON; at most {MAX_RESULT:,} are"
            f" kept. Store the data and return its key\nit takes {size:,} bytes"
        )
    return KeptResult(text, None if keep_for == inf else keep_for)


def keeping(given: bool | float | timedelta) -> float | None:
    """Return the seconds that `keep_result` requests: None for False, inf for True.

    Raises:
        InvalidTask: it is neither a bool nor a valid duration.
    """
    if isinstance(given, bool):
        return inf if given else None
    number = isinstance(given, int | float | timedelta)
    if not number or not 0 < seconds(given) <= MAX_WAIT:
        raise InvalidTask(
            f"keep_result is {given!r}; give True (as long as the job's history), or more than 0"
            " seconds, as a number or a timedelta"
        )
    return seconds(given)


R = TypeVar("R", covariant=True)
V = TypeVar("V")


class Results(Protocol):
    """An object that waits for results: the application."""

    def result(self, id: int, timeout: float | None = None) -> Any:
        """Wait until a job has ended, and return its result."""
        ...

    async def aresult(self, id: int, timeout: float | None = None) -> Any:
        """Wait until a job has ended, and return its result, from a coroutine."""
        ...


@dataclass(frozen=True, slots=True)
class Handle(Generic[R]):
    """The job that was enqueued, or the one that has its key.

    `how` is how the job was enqueued: "inserted"; with a unique key also "replaced" (it replaced a
    waiting one), "rerun" (it waits for a running one), "found" (another job has the key, and
    nothing was written) or "outdated" (a job with a newer version was enqueued before, and nothing
    was written). With a supersede rule also "follows" (it runs after the previous job of the key),
    "merged" (with a waiting one), "superseded" (together with a waiting one; neither runs) or
    "repeated" (the last job of the key has succeeded with the same arguments, and nothing was
    written).
    """

    id: int
    task: str
    queue: str
    how: How = "inserted"
    results: Results | None = field(default=None, compare=False, repr=False)

    @property
    def created(self) -> bool:
        """True if a job was written."""
        return self.how not in NOTHING_WRITTEN

    # The result of a coroutine function is what its coroutine returns.
    @overload
    def result(self: "Handle[Coroutine[Any, Any, V]]", timeout: float | None = None) -> V: ...
    @overload
    def result(self, timeout: float | None = None) -> R: ...
    def result(self, timeout: float | None = None) -> Any:
        """Wait until the job has finished, and return what its handler returned.

        Parameters:
            timeout: maximum seconds to wait; None: no limit.

        Raises:
            JobDied, JobCancelled: the job has finished without a result.
            ResultTimeout: the job has not finished in time.
            ResultMissing: the result was not stored: use `@app.task(keep_result=True)`.
            UnknownJob: the job was not committed (yet), or was pruned.
        """
        return self._results.result(self.id, timeout)

    @overload
    async def aresult(
        self: "Handle[Coroutine[Any, Any, V]]", timeout: float | None = None
    ) -> V: ...
    @overload
    async def aresult(self, timeout: float | None = None) -> R: ...
    async def aresult(self, timeout: float | None = None) -> Any:
        """Wait in a coroutine until the job has finished, and return what its handler returned.

        Parameters:
            timeout: maximum seconds to wait; None: no limit.

        Raises:
            JobDied, JobCancelled: the job has finished without a result.
            ResultTimeout: the job has not finished in time.
            ResultMissing: the result was not stored: use `@app.task(keep_result=True)`.
            UnknownJob: the job was not committed (yet), or was pruned.
        """
        return await self._results.aresult(self.id, timeout)

    @property
    def _results(self) -> Results:
        if self.results is None:
            raise WrongState("this handle was made by hand; ask app.result(id) instead")
        return self.results
