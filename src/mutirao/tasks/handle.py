"""The handle of an enqueued job, for its caller."""

from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar, overload

from mutirao.errors import WrongState
from mutirao.model.keys.uniqueness import NOTHING_WRITTEN, How

R = TypeVar("R", covariant=True)
V = TypeVar("V")


class Results(Protocol):
    """The source of results: the application."""

    def result(self, id: int, timeout: float | None = None) -> Any:
        """Wait until a job has ended, and return its result."""
        ...

    async def aresult(self, id: int, timeout: float | None = None) -> Any:
        """Wait until a job has ended, and return its result, from a coroutine."""
        ...


@dataclass(frozen=True, slots=True)
class Handle(Generic[R]):
    """The job that was enqueued, or the one that has its key.

    `how` says how the job was enqueued: "inserted"; with a unique key also "replaced" (it replaced
    one that waited), "rerun" (it waits for one that runs), "found" (another job has the key, and
    nothing was written) or "outdated" (a job with a newer version was enqueued before, and nothing
    was written). With a supersede rule also "follows" (it runs after the previous job of
    the key), "merged" (with one that waited), "superseded" (together with one that waited; neither
    runs) or "repeated" (the last job of the key has succeeded with the same arguments, and nothing
    was written).
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
