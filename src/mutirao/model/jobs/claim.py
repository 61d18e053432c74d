"""A job that a worker has claimed."""

from datetime import datetime
from typing import NamedTuple

from mutirao.model.jobs.graph_flags import FLAGS_KEY
from mutirao.model.jobs.lanes import FAIR_LANE_PREFIX


class Claim(NamedTuple):
    """A job that a worker claimed, with its run as the fence. Fields are the claim's columns."""

    id: int
    run: int
    attempt: int
    task: str
    args: str
    queue: str
    priority: int
    run_at: datetime
    enqueued_at: datetime
    max_attempts: int | None
    timeout: float | None
    key: str | None
    tags: str | None  # JSON array
    metadata: str | None  # JSON object
    traceparent: str | None
    redrive_of: int | None
    on_dead_of: int | None
    cancel: bool = False  # a cancel was requested while an earlier run held it
    lost: int = 0  # workers in a row that were lost while they held it
    cut_off: int = 0  # attempts in a row that lost the connection of their transaction
    tenant: str | None = None
    group: str | None = None

    @property
    def lane(self) -> str:
        """The name of the lane it was claimed from, and returns to when it has to wait."""
        return self.queue

    @property
    def linked(self) -> bool:
        """True if others may wait for its end: it is, or might be, a step of a graph."""
        return self.metadata is not None and FLAGS_KEY in self.metadata


class UnfitClaim(Claim):
    """The claim of a job that must not run: its row cannot be read; `problem` is the reason.

    It has no metadata, so that no code reads that.
    """

    problem: str = "its row cannot be read"
    _lane: str | None = None
    _linked: bool = True

    @classmethod
    def of(cls, claim: Claim, problem: str) -> "UnfitClaim":
        """Return a claim as one that must not run."""
        unfit = cls._make(claim._replace(metadata=None))
        unfit.problem, unfit._lane, unfit._linked = problem, claim.lane, claim.linked
        return unfit

    @property
    def lane(self) -> str:
        """The name of the lane it was claimed from, and returns to when it has to wait."""
        return self.queue if self._lane is None else self._lane

    @property
    def linked(self) -> bool:
        """True if others may wait for its end, as far as is known."""
        return self._linked


class FairClaim(Claim):
    """A claim from the fair lane of its queue."""

    __slots__ = ()

    @property
    def lane(self) -> str:
        """The name of the lane it was claimed from, and returns to when it has to wait."""
        return FAIR_LANE_PREFIX + self.queue
