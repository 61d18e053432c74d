"""What a SQL store keeps beside jobs and workers: schedules, limits, graphs, results, progress.

The face of the rooms of the same names, in one place because each is only a few lines.
"""

from collections.abc import Collection
from datetime import datetime

from mutirao.limit import LimitRecord, Origin, Rule
from mutirao.records import Ending, GraphRecord, GraphState, Progress
from mutirao.schedule import Agenda, Amend, Amended, ScheduleRecord
from mutirao.sql import limits, records, results, schedules, tables, workers
from mutirao.sql.dialects.base import Dialect
from mutirao.sql.intake import SqlIntake
from mutirao.sql.runner import Runner


class Books:
    """The part of `SqlStore` that implements `mutirao.ports.books`."""

    _dialect: Dialect
    _intake: SqlIntake
    _runner: Runner

    # Schedules.

    async def agenda(self, *, now: datetime | None = None) -> Agenda:
        """Tell which schedules have something to do."""
        return await self._runner.alone(schedules.agenda, self._dialect, now)

    async def amend_schedule(
        self, name: str, amend: Amend, *, wait: bool = True, now: datetime | None = None
    ) -> Amended:
        """Change a schedule and make its jobs."""
        amendment = schedules.Amending(self._dialect, self._intake.enqueue, name, amend, wait, now)
        return await self._runner.insist(amendment.write)

    async def vouch(
        self, names: Collection[str], worker: str, *, every: float, now: datetime | None = None
    ) -> None:
        """Note that schedules are in a worker's code."""
        told = (self._dialect, names, worker, every, now)
        await self._runner.alone(workers.vouch, tables.schedule, *told)

    async def schedules(self) -> list[ScheduleRecord]:
        """List the schedules."""
        return await self._runner.alone(schedules.listed)

    # Limits.

    async def put_limit(
        self,
        rule: Rule,
        *,
        origin: Origin = Origin.COMMAND,
        worker: str | None = None,
        now: datetime | None = None,
    ) -> None:
        """Make a limit, or give the one of that name other terms."""
        await self._runner.insist(limits.put, self._dialect, rule, origin, worker, now)

    async def remove_limit(self, name: str, *, now: datetime | None = None) -> bool:
        """Remove a limit."""
        return await self._runner.insist(limits.remove, self._dialect, name, now)

    async def vouch_limits(
        self, names: Collection[str], worker: str, *, every: float, now: datetime | None = None
    ) -> None:
        """Note that limits are in a worker's code."""
        told = (self._dialect, names, worker, every, now)
        await self._runner.alone(workers.vouch, tables.limit, *told)

    async def limits(self) -> list[LimitRecord]:
        """List the limits."""
        return await self._runner.alone(limits.listed)

    # Graphs, results, progress.

    async def graphs(
        self, state: GraphState | None = None, limit: int | None = 100
    ) -> list[GraphRecord]:
        """List graphs."""
        return await self._runner.alone(records.graphs, state, limit)

    async def graph(self, id: int) -> GraphRecord:
        """Return one graph with its steps."""
        return await self._runner.alone(records.graph, id)

    async def endings(self, jobs: Collection[int]) -> list[Ending]:
        """Tell how jobs stand."""
        return await self._runner.alone(results.endings, list(jobs))

    async def await_ends(self, jobs: Collection[int]) -> None:
        """Have it told when one of these jobs ends."""
        if self._dialect.tells_ends:
            await self._runner.alone(results.await_ends, self._dialect, list(jobs))

    async def report(self, told: Collection[Progress], *, now: datetime | None = None) -> None:
        """Write how far attempts have come."""
        await self._runner.run(results.report, self._dialect, list(told), now)
