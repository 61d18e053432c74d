"""Lanes, their known heads, and wake-ups about them.

A lane is a queue and a priority: what a claim reads in order.
"""

from datetime import datetime
from typing import NamedTuple

FAIR_LANE_PREFIX = "\x1f"  # prefix of the names of fair lanes; no queue's name begins with it
# Prefix of the names of lanes whose jobs a broker carries at the moment, before that of fair lanes.
RUNG_LANE_PREFIX = "\x1d"


class Lane(NamedTuple):
    """A lane and the lower bound to read it from: no waiting job is expected before it.

    The bound is the pair (`run_at`, `id`), the order inside a lane. It keeps claims from walking
    again over the dead index entries that a long snapshot keeps alive.
    """

    queue: str
    priority: int
    run_at: datetime
    id: int


class LaneHead(NamedTuple):
    """A lane with its earliest waiting job, and the seconds until that is due (<= 0: it is due)."""

    lane: Lane
    due_in: float


class Wake(NamedTuple):
    """A wake-up. With a lane: a job at `run_at` appeared there. Without: any lane may have jobs.

    `first`: the ids of the workers that shall look at once; None: all. `then`: of those that look
    after them, in case they do not; with the last of these, all that are newer than the worker
    `newest`. `after`: how many workers were woken before the receiver, if none is named.
    """

    queue: str | None = None
    priority: int = 0
    run_at: datetime | None = None
    first: tuple[int, ...] | None = None
    then: tuple[int, ...] = ()
    newest: int | None = None
    after: int = 0

    def turn(self, worker: int) -> int | None:
        """Return when a worker shall look: 0, at once; 1 and up, after others; None, not at all."""
        if self.first is None:
            return self.after
        if worker in self.first:
            return 0
        if worker in self.then:
            return self.then.index(worker) + 1
        return None if worker <= (self.newest or worker) else max(1, len(self.then))
