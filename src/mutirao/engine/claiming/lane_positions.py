"""Remembers a worker's lanes: where each begins, and when it is due next.

The lower bounds keep claims off the dead index entries that accumulate at the front of a lane while
a snapshot is held open. They are only memory: reading the heads again corrects them.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence, Set, Sized
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import groupby
from math import inf

from mutirao.errors import StoreBusy
from mutirao.model.jobs.job import Claim, FairClaim, Lane, LaneHead, Wake
from mutirao.model.limits.fairness import is_fair, queue_of
from mutirao.model.moments import BEFORE_ALL_JOBS

MAX_DUE_TIMES_PER_LANE = 1_000  # due times remembered for a lane; polling finds what is forgotten
LIVELY_SECONDS = 1.0  # for which a lane in which jobs were found may get more of them at any moment
MOST_LANES = 1_000  # that one claim asks for; the next claim continues behind them
Key = tuple[str, int]


@dataclass(slots=True)
class _Entry:
    """A lane, since when it may have due jobs (inf: it has none), and when it will have some."""

    lane: Lane
    due_at: float = inf
    head_at: float = inf  # when its first job will be due, according to the store
    found_at: float = -inf  # when a claim last found jobs in it
    expected: list[float] = field(default_factory=list)  # a heap

    def next_due(self) -> float:
        return min(self.due_at, self.head_at, *self.expected[:1])

    def is_lively(self, now: float) -> bool:
        return now - self.found_at < LIVELY_SECONDS

    def expect(self, at: float) -> None:
        if len(self.expected) < MAX_DUE_TIMES_PER_LANE:
            heappush(self.expected, at)

    def arrived(self, now: float) -> bool:
        """Return whether there may be due jobs; expected times that have passed count."""
        while self.expected and self.expected[0] <= now:
            self.due_at = min(self.due_at, heappop(self.expected))
        if self.head_at <= now:
            self.due_at, self.head_at = min(self.due_at, self.head_at), inf
        return self.due_at <= now


class LaneBook:
    """The lanes by (queue, priority). `now` is always the loop's monotonic clock, in seconds."""

    def __init__(self, queues: frozenset[str] | None, but: frozenset[str] = frozenset()) -> None:
        """Set the queues to serve (None: all), and those not to serve."""
        self._queues, self._but = queues, but
        self._entries: dict[Key, _Entry] = {}
        self._begins: dict[int, str] = {}  # the queue with which each priority begins next
        self._asked: list[Lane] = []  # the lanes of the last claim
        self.in_parts = False  # whether that claim asked for a part of the lanes with due jobs
        # What arrived during a query of the store; None if there is no query.
        self._meanwhile: list[tuple[Lane, float]] | None = None

    def __len__(self) -> int:
        """Return the number of known lanes."""
        return len(self._entries)

    def asking(self) -> None:
        """Record that a query of the store begins; its answer does not include what arrives now."""
        self._meanwhile = []

    def refresh(self, heads: Iterable[LaneHead], now: float, *, notified: bool = True) -> None:
        """Replace the lanes with the store's answer: the bounds are exact again.

        `notified`: new jobs are notified. Otherwise lanes in which jobs were found lately stay, as
        the next ones may come at any moment.
        """
        known = self._entries
        # Expected jobs may have begun to wait during the query.
        self._entries = {
            key: _Entry(entry.lane, expected=entry.expected)
            for key, entry in known.items()
            if entry.expected
        }
        for lane, due_in in heads:
            if not self._serves(lane.queue):
                continue
            key = (lane.queue, lane.priority)
            expected = known[key].expected if key in known else []
            self._entries[key] = _Entry(lane, head_at=now + due_in, expected=expected)
        if not notified:
            for key, entry in known.items():
                if entry.is_lively(now):
                    self._entries.setdefault(key, entry).found_at = entry.found_at
            self.suspect(now)
        if len(self._begins) > MOST_LANES:
            priorities = {priority for _, priority in self._entries}
            self._begins = {each: at for each, at in self._begins.items() if each in priorities}
        self._catch_up()

    def suspect(self, now: float) -> None:
        """Check lanes again in which jobs were found lately: new jobs there are not announced."""
        for entry in self._entries.values():
            if entry.is_lively(now):
                entry.due_at = min(entry.due_at, now)

    def wake(self, wake: Wake, now: float, ahead: float) -> bool:
        """Record that a job appeared, due in `ahead` seconds; return False if no lane is named."""
        if wake.queue is None or wake.run_at is None:
            return False
        if self._serves(wake.queue):
            at = now + max(0.0, ahead)
            lane = Lane(wake.queue, wake.priority, wake.run_at, 0)
            if self._meanwhile is not None and len(self._meanwhile) < MAX_DUE_TIMES_PER_LANE:
                self._meanwhile.append((lane, at))
            self._appeared(lane, at)
        return True

    def due(self, now: float) -> list[Lane]:
        """Return the lanes that may have due jobs, by priority; equal ones take turns.

        More than `MOST_LANES` are returned in parts: the first priorities, and of the last of these
        the lanes that have waited for longest.
        """
        there = [entry.lane for entry in self._entries.values() if entry.arrived(now)]
        there.sort(key=lambda lane: (lane.priority, lane.queue))
        self._asked = []
        for priority, lanes in groupby(there, key=lambda lane: lane.priority):
            self._asked += _beginning(list(lanes), self._begins.get(priority, ""))
            if len(self._asked) >= MOST_LANES:
                break
        self.in_parts = len(there) > MOST_LANES
        self._asked = self._asked[:MOST_LANES]
        return self._asked

    def next_due(self) -> float:
        """Return when the earliest known job is due; inf if none is known."""
        return min((entry.next_due() for entry in self._entries.values()), default=inf)

    def claimed(self, claims: Sequence[Claim], now: float) -> None:
        """Raise the bounds to what a claim reached; those of fair lanes stay.

        The next claim begins behind the last lane that this one took from, so a lane is read again
        only after all others of its priority. If this claim found nothing, the next one begins with
        the same lane: if every other claim were empty, the same lane would always come first.
        """
        if claims:
            self._take_turns({(claim.queue, claim.priority) for claim in claims})
        for lane, priority in {(claim.lane, claim.priority) for claim in claims}:
            if (found := self._entries.get((lane, priority))) is not None:
                found.found_at = now
        plain = [claim for claim in claims if not isinstance(claim, FairClaim)]
        last = {(claim.queue, claim.priority): claim for claim in plain}
        for key, claim in last.items():
            if (entry := self._entries.get(key)) is not None:
                entry.lane = Lane(*key, claim.run_at, claim.id)
        self._catch_up()

    def _take_turns(self, taken: Set[Key]) -> None:
        for priority, asked in groupby(self._asked, key=lambda lane: lane.priority):
            lanes = list(asked)
            queues = [queue_of(lane.queue) for lane in lanes]
            places = [n for n, queue in enumerate(queues) if (queue, priority) in taken]
            last = places[-1] if places else 0
            if last + 1 < len(lanes):
                self._begins[priority] = lanes[last + 1].queue
            elif self.in_parts:
                self._begins[priority] = f"{lanes[last].queue}\0"  # whatever comes behind it
            else:  # all had their turn
                self._begins[priority] = lanes[1 % len(lanes)].queue

    def exhausted(self, asked: Iterable[Lane]) -> None:
        """Record that these lanes have no due job left, until a wake-up or a refresh."""
        for lane in asked:
            entry = self._entries.get((lane.queue, lane.priority))
            if entry is not None:
                entry.due_at = inf

    def expect(self, queue: str, priority: int, due_at: float) -> None:
        """Record that a job known to this worker will be due in a lane.

        The bound stays; a fair lane's is forgotten, as claims from it do not raise it.
        """
        lane = Lane(queue, priority, BEFORE_ALL_JOBS, 0)
        entry = self._entries.setdefault((queue, priority), _Entry(lane))
        entry.expect(due_at)
        if is_fair(queue):
            entry.lane = lane

    def _serves(self, queue: str) -> bool:
        return (self._queues is None or queue in self._queues) and queue not in self._but

    def _appeared(self, lane: Lane, at: float) -> None:
        entry = self._entries.setdefault((lane.queue, lane.priority), _Entry(lane))
        entry.expect(at)
        if (lane.run_at, lane.id) < (entry.lane.run_at, entry.lane.id):
            entry.lane = lane

    def _catch_up(self) -> None:
        """Apply again the wake-ups that arrived during a query."""
        for lane, at in self._meanwhile or ():
            self._appeared(lane, at)
        self._meanwhile = None


def _beginning(lanes: list[Lane], queue: str) -> list[Lane]:
    """Return lanes in order of their queues, from this queue on, and then the others."""
    start = bisect_left(lanes, queue, key=lambda lane: lane.queue)
    return lanes[start:] + lanes[:start]


FEW_LANES = 1_000


class many_lanes_noted:  # noqa: N801 (used like `contextlib.suppress`)
    """Add the number of lanes, if it is large, to the text of a StoreBusy; do not catch it.

    May be entered again, and is no generator: an idle worker enters it between a wake-up and its
    claim.
    """

    __slots__ = ("_lanes",)

    def __init__(self, lanes: Sized) -> None:
        self._lanes = lanes

    def __enter__(self) -> None:
        """Begin the block."""

    def __exit__(self, _: object, error: BaseException | None, trace: object) -> None:
        """Change the error of the block, if it is one."""
        if isinstance(error, StoreBusy) and len(self._lanes) > FEW_LANES:
            number = len(self._lanes)
            error.args = (f"{error}; jobs wait in {number:,} lanes: see `mutirao doctor`",)
