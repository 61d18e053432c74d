"""What a caller holds of a job that was enqueued."""

from dataclasses import dataclass, field
from typing import Any, Protocol

from mutirao.errors import WrongState
from mutirao.unique import How


class Results(Protocol):
    """Where results are waited for: the application."""

    def result(self, id: int, timeout: float | None = None) -> Any:
        """Wait for a job's end, and return its result."""
        ...

    async def aresult(self, id: int, timeout: float | None = None) -> Any:
        """As `result`, from a coroutine."""
        ...


@dataclass(frozen=True, slots=True)
class Handle:
    """A job that was enqueued, or the one that stands for it.

    `how` says how that came to: "inserted"; with a unique key also "replaced" (one that waited),
    "rerun" (it waits for one that runs) or "found" (nothing was written). With a supersede rule
    also "follows" (it runs after the one before it), "merged" (with one that waited) or
    "superseded" (together with one that waited; neither runs).
    """

    id: int
    task: str
    queue: str
    how: How = "inserted"
    results: Results | None = field(default=None, compare=False, repr=False)

    @property
    def created(self) -> bool:
        """Whether a job was written."""
        return self.how != "found"

    def result(self, timeout: float | None = None) -> Any:
        """Wait until the job has finished, and return what its handler returned.

        Parameters:
            timeout: seconds to wait at most; None for as long as it takes.

        Raises:
            JobDied, JobCancelled: it has, without a result.
            ResultTimeout: it has not finished in time.
            ResultMissing: its result was not kept: `@app.task(keep_result=True)`.
            UnknownJob: it was not committed (yet), or was pruned.
        """
        return self._results.result(self.id, timeout)

    async def aresult(self, timeout: float | None = None) -> Any:
        """As `result`, from a coroutine."""
        return await self._results.aresult(self.id, timeout)

    @property
    def _results(self) -> Results:
        if self.results is None:
            raise WrongState("this handle was made by hand; ask app.result(id) instead")
        return self.results
