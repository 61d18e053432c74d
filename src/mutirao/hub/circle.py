"""Chooses which idle workers to wake: one now, three with a delay, all if the lane is unknown.

ADR 48 says why. The hub knows who is idle, so a busy worker is not chosen.
"""

from collections.abc import Iterator
from typing import Protocol

from mutirao.hub.protocol import Serves, WakeLine
from mutirao.model.limits.fairness import queue_of

LATER = 3  # workers that look after the first ones
MANY = 50  # jobs for which all are woken
MOST_LISTS = 1_000  # queues whose workers are remembered


class Member(Protocol):
    """A worker that is connected."""

    serves: Serves | None


class Circle:
    """The workers of one database that are connected."""

    def __init__(self) -> None:
        self.members: dict[Member, None] = {}
        self._turn = 0
        self._able: dict[tuple[str | None, str | None], list[Member]] = {}

    def add(self, member: Member) -> None:
        """Record a worker, or that it is idle now, or no more."""
        self.members[member] = None
        self._able.clear()

    def remove(self, member: Member) -> None:
        """Forget a worker."""
        self.members.pop(member, None)
        self._able.clear()

    def choose(self, line: WakeLine) -> Iterator[tuple[Member, int]]:
        """Yield the workers that look, each with how many were woken before it."""
        able = self._able_for(line)
        if not able:
            return
        wanted = line.jobs + LATER
        if line.queue is None or line.jobs >= MANY or line.jobs >= len(able):
            yield from ((member, 0) for member in able)
            return
        chosen = min(wanted, len(able))
        # As far from each other as possible: neighbours were often started on one machine.
        stride = len(able) // chosen
        for n in range(chosen):
            yield able[(self._turn + n * stride) % len(able)], max(0, n - line.jobs + 1)
        self._turn += line.jobs

    def _able_for(self, line: WakeLine) -> list[Member]:
        queue = None if line.queue is None else queue_of(line.queue)
        task = line.task
        key = (queue, task)
        if key not in self._able:
            if len(self._able) >= MOST_LISTS:
                self._able.clear()
            self._able[key] = [each for each in self.members if _serves(each.serves, queue, task)]
        return self._able[key]


def _serves(serves: Serves | None, queue: str | None, task: str | None) -> bool:
    if serves is None or not serves.idle:
        return False
    if queue is not None and (
        queue in serves.exclude or (serves.queues is not None and queue not in serves.queues)
    ):
        return False
    return task is None or serves.tasks is None or task in serves.tasks
