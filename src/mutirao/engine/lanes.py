"""What a worker remembers of the lanes it serves: where each begins, and when it is due next.

The lower bounds keep claims off the dead index entries that pile up at the front of a lane while
somebody holds a snapshot open. They are only memory: reading the heads again corrects them.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from math import inf

from mutirao.job import Claim, Lane, LaneHead, Wake

BEGINNING = datetime(1, 1, 2, tzinfo=UTC)
Key = tuple[str, int]


@dataclass(slots=True)
class _Entry:
    lane: Lane
    due_at: float  # on the monotonic clock; inf: nothing is known to wait


class LaneBook:
    """The lanes by (queue, priority). `now` is always the loop's monotonic clock, in seconds."""

    def __init__(self, queues: frozenset[str] | None) -> None:
        self._queues = queues
        self._entries: dict[Key, _Entry] = {}
        self._turn = 0

    def refresh(self, heads: Iterable[LaneHead], now: float) -> None:
        """Replace everything by what the store says: bounds are exact again."""
        self._entries = {
            (head.lane.queue, head.lane.priority): _Entry(head.lane, now + head.due_in)
            for head in heads
        }

    def wake(self, wake: Wake, now: float) -> bool:
        """Note that a job appeared; return whether the wake-up named a lane we can trust."""
        if wake.queue is None or wake.run_at is None:
            return False
        if self._queues is None or wake.queue in self._queues:
            self._lower(Lane(wake.queue, wake.priority, wake.run_at, 0), now)
        return True

    def due(self, now: float) -> list[Lane]:
        """Return the lanes that may have due jobs, by priority; equal ones take turns in front."""
        self._turn += 1
        by_priority: dict[int, list[Lane]] = {}
        for entry in self._entries.values():
            if entry.due_at <= now:
                by_priority.setdefault(entry.lane.priority, []).append(entry.lane)
        return [
            lane
            for priority in sorted(by_priority)
            for lane in _rotated(by_priority[priority], self._turn)
        ]

    def next_due(self) -> float:
        """Return when the earliest known job is due; inf if none is known."""
        return min((entry.due_at for entry in self._entries.values()), default=inf)

    def claimed(self, claims: Iterable[Claim]) -> None:
        """Move the bounds up to what a claim reached."""
        for claim in claims:
            entry = self._entries.get((claim.queue, claim.priority))
            if entry is not None:
                entry.lane = Lane(claim.queue, claim.priority, claim.run_at, claim.id)

    def exhausted(self, asked: Iterable[Lane]) -> None:
        """Note that these lanes have no due job left; a wake-up or a refresh tells of new ones."""
        for lane in asked:
            entry = self._entries.get((lane.queue, lane.priority))
            if entry is not None:
                entry.due_at = inf

    def expect(self, queue: str, priority: int, due_at: float) -> None:
        """Note that a job this worker knows of will be due in a lane; its bound stays."""
        entry = self._entries.get((queue, priority))
        if entry is None:
            self._entries[queue, priority] = _Entry(Lane(queue, priority, BEGINNING, 0), due_at)
        else:
            entry.due_at = min(entry.due_at, due_at)

    def _lower(self, lane: Lane, now: float) -> None:
        entry = self._entries.setdefault((lane.queue, lane.priority), _Entry(lane, now))
        entry.due_at = min(entry.due_at, now)
        if (lane.run_at, lane.id) < (entry.lane.run_at, entry.lane.id):
            entry.lane = lane


def _rotated(lanes: list[Lane], turn: int) -> list[Lane]:
    if len(lanes) == 1:
        return lanes
    start = turn % len(lanes)
    return lanes[start:] + lanes[:start]
