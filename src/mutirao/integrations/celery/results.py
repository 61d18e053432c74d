"""The result of a call: an `AsyncResult` with Celery's names, over Mutirão's handles."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from mutirao.app import Mutirao
from mutirao.errors import JobCancelled, JobDied, ResultTimeout, UnknownJob
from mutirao.integrations.celery.refusing import refusal
from mutirao.model.jobs.job import JobState
from mutirao.model.jobs.records import JobRecord

_FINAL = {
    JobState.SUCCEEDED: "SUCCESS", JobState.DEAD: "FAILURE", JobState.CANCELLED: "REVOKED",
}  # fmt: skip
TimeoutError = ResultTimeout
LONGEST_ID = 20  # characters, and fewer: it is a number of 63 bits


class AsyncResult:
    """A job that was enqueued.

    Parameters:
        id: of the job.
        app: where it is.
        parent: of a chain, the result of the step before.

    Raises:
        UnknownJob: the id is none of a job, such as one that Celery gave.
    """

    def __init__(self, id: int | str, app: Mutirao, parent: "AsyncResult | None" = None) -> None:
        text = str(id)
        if not (text.isascii() and text.isdecimal() and len(text) < LONGEST_ID):
            raise UnknownJob(f"{text[:80]!r} is no id of a job here, which is a whole number")
        self._job, self._app, self.parent = int(text), app, parent

    def __repr__(self) -> str:
        return f"<AsyncResult: {self.id}>"

    def __str__(self) -> str:
        return self.id

    @property
    def id(self) -> str:
        """The id of the job, as text."""
        return str(self._job)

    task_id = id

    def get(self, timeout: float | None = None, propagate: bool = True, **others: Any) -> Any:
        """Wait until the job has ended, and return what its task returned.

        Parameters:
            timeout: the longest wait in seconds.
            propagate: raise if it failed; otherwise return the error.

        Raises:
            JobDied, JobCancelled: it has not succeeded.
            ResultTimeout: it has not ended in time.
            ResultMissing: nothing was kept: say ignore_result=False of its task.
        """
        unknown = others.keys() - {"interval", "no_ack", "follow_parents", "disable_sync_subtasks"}
        if unknown:
            raise refusal(f"get({', '.join(sorted(unknown))})", "give timeout=", "results")
        try:
            return self._app.result(self._job, timeout)
        except (JobDied, JobCancelled) as error:
            if propagate:
                raise
            return error

    wait = get

    @property
    def record(self) -> JobRecord:
        """The job as it is now, with its attempts."""
        return self._app.job(self._job)

    @property
    def status(self) -> str:
        """PENDING, STARTED, RETRY, SUCCESS, FAILURE or REVOKED."""
        record = self.record
        if record.state is JobState.RUNNING:
            return "STARTED"
        return _FINAL.get(record.state, "RETRY" if record.attempt else "PENDING")

    state = status

    @property
    def result(self) -> Any:
        """The result of its task, or the error; None if it has not ended."""
        return self.get(propagate=False) if self.ready() else None

    @property
    def traceback(self) -> str | None:
        """The text of the last error."""
        return self.record.error

    @property
    def date_done(self) -> datetime | None:
        """When it ended."""
        return self.record.finished_at

    @property
    def name(self) -> str:
        """The name of its task."""
        return self.record.task

    def ready(self) -> bool:
        """Return whether it has ended."""
        return self.status in _FINAL.values()

    def successful(self) -> bool:
        """Return whether it has succeeded."""
        return self.status == "SUCCESS"

    def failed(self) -> bool:
        """Return whether it is dead."""
        return self.status == "FAILURE"

    def revoke(self, terminate: bool = False, **others: Any) -> None:
        """Cancel the job; if it runs, the next heartbeat of its worker reads that.

        `terminate` changes nothing: a coroutine is ended, a thread cannot be.
        """
        if others.keys() - {"signal", "wait", "timeout", "connection"}:
            raise refusal(f"revoke({', '.join(others)})", "use app.cancel(id)", "results")
        self._app.cancel(self._job)

    def forget(self) -> None:
        """Do nothing: results are pruned with their jobs."""


class GroupResult:
    """The results of the members of a group, in order."""

    def __init__(self, results: Sequence[Any], parent: AsyncResult | None = None) -> None:
        self.results, self.parent = list(results), parent
        self.children = self.results

    def __len__(self) -> int:
        return len(self.results)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.results)

    def __getitem__(self, place: int) -> Any:
        return self.results[place]

    def get(self, timeout: float | None = None, propagate: bool = True) -> list[Any]:
        """Wait until all have ended, up to `timeout` seconds for each; return their results."""
        return [each.get(timeout, propagate) for each in self.results]

    join = join_native = get

    def ready(self) -> bool:
        """Return whether all have ended."""
        return all(each.ready() for each in self.results)

    def successful(self) -> bool:
        """Return whether all have succeeded."""
        return all(each.successful() for each in self.results)

    def failed(self) -> bool:
        """Return whether one is dead."""
        return any(each.failed() for each in self.results)

    def waiting(self) -> bool:
        """Return whether one has not ended."""
        return not self.ready()

    def completed_count(self) -> int:
        """Return how many have succeeded."""
        return sum(each.successful() for each in self.results)

    def revoke(self, **options: Any) -> None:
        """Cancel all of them."""
        for each in self.results:
            each.revoke(**options)
