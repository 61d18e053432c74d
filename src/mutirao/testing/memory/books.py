"""What a MemoryStore keeps beside jobs and workers: schedules, limits, graphs, results."""

from collections.abc import Callable, Collection
from datetime import datetime
from threading import Lock

from mutirao.limit import LimitRecord, Origin, Rule
from mutirao.records import Ending, GraphRecord, GraphState, Progress
from mutirao.schedule import Agenda, Amend, Amended, ScheduleRecord
from mutirao.testing.memory import graphs, limits, schedules
from mutirao.testing.memory.tables import Tables


class Books:
    """The part of `MemoryStore` that implements `mutirao.ports.books`."""

    _clock: Callable[[], datetime]
    _lock: Lock
    _tables: Tables

    async def agenda(self, *, now: datetime | None = None) -> Agenda:
        """Tell which schedules have something to do."""
        with self._lock:
            return schedules.agenda(self._tables, now or self._clock())

    async def amend_schedule(
        self, name: str, amend: Amend, *, wait: bool = True, now: datetime | None = None
    ) -> Amended:
        """Change a schedule and make its jobs, while nobody else does anything."""
        with self._lock:
            return schedules.amend(self._tables, name, amend, now or self._clock())

    async def vouch(
        self, names: Collection[str], worker: str, *, every: float, now: datetime | None = None
    ) -> None:
        """Note that schedules are in a worker's code."""
        with self._lock:
            schedules.vouch(self._tables, names, worker, every, now or self._clock())

    async def schedules(self) -> list[ScheduleRecord]:
        """List the schedules, by name."""
        with self._lock:
            return schedules.listed(self._tables, self._clock())

    async def put_limit(
        self,
        rule: Rule,
        *,
        origin: Origin = Origin.COMMAND,
        worker: str | None = None,
        now: datetime | None = None,
    ) -> None:
        """Make a limit, or give the one of that name other terms."""
        with self._lock:
            limits.put(self._tables, rule, origin, worker, now or self._clock())

    async def remove_limit(self, name: str, *, now: datetime | None = None) -> bool:
        """Remove a limit; tell whether there was one."""
        with self._lock:
            return limits.remove(self._tables, name)

    async def vouch_limits(
        self, names: Collection[str], worker: str, *, every: float, now: datetime | None = None
    ) -> None:
        """Note that limits are in a worker's code."""
        with self._lock:
            limits.vouch(self._tables, names, worker, every, now or self._clock())

    async def limits(self) -> list[LimitRecord]:
        """List the limits, by name and key."""
        with self._lock:
            return limits.listed(self._tables, self._clock())

    async def graphs(
        self, state: GraphState | None = None, limit: int | None = 100
    ) -> list[GraphRecord]:
        """List graphs, newest first."""
        with self._lock:
            return graphs.listed(self._tables, state, limit, self._clock())

    async def graph(self, id: int) -> GraphRecord:
        """Return a graph with its steps, or raise UnknownGraph."""
        with self._lock:
            return graphs.one(self._tables, id, self._clock())

    async def endings(self, jobs: Collection[int]) -> list[Ending]:
        """Tell how jobs stand."""
        with self._lock:
            return graphs.endings(self._tables, jobs)

    async def await_ends(self, jobs: Collection[int]) -> None:
        """Nothing to ask for: whoever waits looks again."""

    async def report(self, told: Collection[Progress], *, now: datetime | None = None) -> None:
        """Note how far attempts have come."""
        with self._lock:
            self.note(told)

    def note(self, told: Collection[Progress]) -> None:
        """As `report`, for who holds the lock."""
        for each in told:
            last = self._tables.progress.get(each.job)
            if each.job in self._tables.asked and (last is None or last.run <= each.run):
                self._tables.progress[each.job] = each
