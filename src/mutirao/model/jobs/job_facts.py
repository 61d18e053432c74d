"""The plain facts of a `Job`, from its row, for the handler that runs it."""

from datetime import datetime
from typing import Any

from mutirao.model.jobs.claim import Claim
from mutirao.model.jobs.expiry import expiry_of
from mutirao.model.row_json import read_list, read_object


class JobFacts:
    """The facts of a claimed job, read from the claim on access."""

    __slots__ = ("_claim",)

    _claim: Claim

    @property
    def id(self) -> int:
        """The job's id."""
        return self._claim.id

    @property
    def run(self) -> int:
        """The fence: a number that grows with every claim."""
        return self._claim.run

    @property
    def attempt(self) -> int:
        """The number of this execution, from 1."""
        return self._claim.attempt

    @property
    def task(self) -> str:
        """The task's name."""
        return self._claim.task

    @property
    def queue(self) -> str:
        """The queue it was enqueued in."""
        return self._claim.queue

    @property
    def priority(self) -> int:
        """The priority; smaller numbers run first."""
        return self._claim.priority

    @property
    def run_at(self) -> datetime:
        """The time at which this attempt was due."""
        return self._claim.run_at

    @property
    def enqueued_at(self) -> datetime:
        """The time at which the job was enqueued."""
        return self._claim.enqueued_at

    @property
    def args(self) -> dict[str, Any]:
        """The arguments by name, as JSON has them."""
        return read_object(self._claim.args, "its arguments")

    @property
    def key(self) -> str | None:
        """The key given when it was enqueued."""
        return self._claim.key

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags of the task and of the call."""
        return tuple(read_list(self._claim.tags or "[]", "its tags"))

    @property
    def metadata(self) -> dict[str, Any]:
        """The JSON object given when it was enqueued."""
        return read_object(self._claim.metadata or "{}", "its metadata")

    @property
    def traceparent(self) -> str | None:
        """The W3C trace context in which the job was enqueued."""
        return self._claim.traceparent

    @property
    def tenant(self) -> str | None:
        """The tenant of the job, if one was given when it was enqueued."""
        return self._claim.tenant

    @property
    def group(self) -> str | None:
        """The group of that tenant, if one was given when the job was enqueued."""
        return self._claim.group

    @property
    def expires_at(self) -> datetime | None:
        """The moment after which no attempt starts, if one was given when it was enqueued."""
        return expiry_of(self._claim)

    @property
    def redrive_of(self) -> int | None:
        """The id of the job that this one repeats."""
        return self._claim.redrive_of

    @property
    def on_dead_of(self) -> int | None:
        """The id of the dead job for which this one is the `on_dead` handler."""
        return self._claim.on_dead_of
