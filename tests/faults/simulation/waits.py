"""How long jobs wait for workers that have time, by how many come in a second.

The fleet has no faults. Each call of the store takes a millisecond of virtual time. What is
committed is notified as PostgreSQL does it: only where a worker that listens is registered by then.
"""

from __future__ import annotations

import logging
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

from mutirao import Job
from mutirao.model.jobs.job import NewJob, Wake
from tests.faults.simulation.fleet import Fleet, patched
from tests.faults.simulation.run import contained
from tests.faults.simulation.world import World

CALL = 0.001  # seconds that a call of the store takes
FIRST_CALL = 0.1  # until a worker has begun the first job: they connect, and import
RESTED = 3.0  # seconds after which a worker that found nothing has come to rest
BURST = 4_000  # jobs, of which several claims take many in a window
PATIENCE = 60.0  # virtual seconds in which all of them have to start


@dataclass(slots=True)
class Waits:
    """What was seen: the wait of each job in virtual seconds, and how often the store was called.

    `notified`: how many commits notified somebody.
    """

    waits: list[float] = field(default_factory=list)
    calls: Counter[str] = field(default_factory=Counter)
    notified: int = 0

    @property
    def longest(self) -> float:
        """The longest wait."""
        return max(self.waits)


class Arrivals(Fleet):
    """A fleet that jobs come to one by one."""

    def __init__(self, world: World, size: int) -> None:
        super().__init__(world, size)
        self.weather.takes, self.weather.calls = CALL, Counter()
        self.seen = Waits(calls=self.weather.calls)
        self.story.on_begin = self._begun
        self.on_start: Callable[[], None] | None = None
        self._came: dict[int, float] = {}

    def forget(self) -> None:
        """See anew."""
        self.weather.calls = Counter()
        self.seen = Waits(calls=self.weather.calls)

    def come(self, queue: str = "default") -> None:
        """Commit a job whose wait is measured."""
        [id] = self.enqueue([NewJob(task="quick", queue=queue)])
        self._came[id] = self.world.now

    def burst(self, jobs: int) -> None:
        """Commit many at once, which are not measured, and let all of them run."""
        self.enqueue([NewJob(task="quick")] * jobs)
        while self.store.live():
            self.world.run(self.world.now + CALL)

    def enqueue(self, jobs: list[NewJob]) -> list[int]:
        """Commit some jobs, and notify those that listen."""
        ids = self.store.enqueue(jobs)
        if named := tuple(self.store.listening()):
            self.seen.notified += 1
            first = min(len(jobs), len(named))
            lane, now = jobs[0].lane, self.world.moment()
            self.notices.notify(Wake(lane, 0, now, named[:first], named[first:][:3]))
        return ids

    def _begun(self, job: Job) -> None:
        self.weather.takes = CALL
        came = self._came.pop(job.id, None)
        if came is not None:
            self.seen.waits.append(self.world.now - came)
            if self.on_start is not None:
                self.on_start()


def open_loop(fleet: Arrivals, rate: float, jobs: int) -> None:
    """Let jobs come whenever it is their time, whatever became of those before."""
    at = fleet.world.now
    for _ in range(jobs):
        fleet.world.at(at, fleet.come)
        at += fleet.world.random.uniform(0.5, 1.5) / rate


def stream(fleet: Arrivals, rate: float, seconds: float) -> None:
    """Let very many jobs come for a while, in small batches that are not measured."""
    batch = [NewJob(task="quick")] * int(rate / 100)

    def come() -> None:
        fleet.enqueue(batch)

    for n in range(int(100 * seconds)):
        fleet.world.after(n / 100, come)


def closed_loop(fleet: Arrivals, rate: float, jobs: int) -> None:
    """Let each job come a while after the one before it has begun."""
    numbers = count(1)

    def again() -> None:
        if next(numbers) < jobs:
            fleet.world.after(fleet.world.random.uniform(0.5, 1.5) / rate, fleet.come)

    fleet.on_start = again
    fleet.come()


Loop = Callable[[Arrivals, float, int], None]


def rested(fleet: Arrivals) -> None:
    """Let workers find nothing for a while."""
    fleet.world.run(RESTED)


def together(fleet: Arrivals) -> None:
    """Let jobs come from the moment on in which the first worker has started and found one."""
    fleet.weather.takes = FIRST_CALL
    fleet.enqueue([NewJob(task="quick")])
    while not fleet.story.begun:
        fleet.world.run(fleet.world.now + CALL)


def drained(fleet: Arrivals) -> None:
    """Let workers have done very many just now."""
    fleet.world.run(RESTED)
    fleet.burst(BURST)


BEFORE: list[Callable[[Arrivals], None]] = [rested, together, drained]


def simulated(
    size: int, before: Callable[[Arrivals], None], loop: Loop, rate: float, jobs: int
) -> Waits:
    """Return what is seen of so many jobs, of which about `rate` come in a second."""

    def body(fleet: Arrivals) -> Waits:
        before(fleet)
        fleet.forget()
        loop(fleet, rate, jobs)
        end = fleet.world.now + jobs / rate + PATIENCE
        while len(fleet.seen.waits) < jobs and fleet.world.now < end:
            fleet.world.run(fleet.world.now + 0.1)
        return fleet.seen

    return lived(body, size)


def lived(body: Callable[[Arrivals], Waits], size: int = 1, *, deaf: bool = False) -> Waits:
    """Return what `body` returns of a fleet whose workers start. Nothing of it is left behind.

    `deaf`: the workers only poll.
    """
    with contained():
        return _lived(body, size, deaf)


def _lived(body: Callable[[Arrivals], Waits], size: int, deaf: bool) -> Waits:
    random.seed(1)
    world = World(1)
    patch = patched(world)
    fleet = Arrivals(world, size)
    fleet.notifier = None if deaf else fleet.notices
    try:
        fleet.start()
        return body(fleet)
    finally:
        logging.getLogger("mutirao").disabled = True
        for process in [*world.processes]:
            world.bury(process)
        fleet.store.discard()
        patch.undo()
