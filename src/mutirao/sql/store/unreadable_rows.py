"""The part of the SQL store that finds and buries rows which make every claim fail."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

from mutirao.errors import StoreRefused
from mutirao.sql import statements

if TYPE_CHECKING:
    from mutirao.model.jobs.job import Claim, Lane
    from mutirao.sql.enqueue.intake import SqlIntake
    from mutirao.sql.store.sender import StatementSender

T = TypeVar("T")
MAX_TRIES = 3  # of a claim, where limits call others first


class SqlSifting:
    """The part of `SqlStore` that implements `mutirao.ports.unreadable_rows`."""

    _sender: StatementSender
    _intake: SqlIntake
    _whole: Callable[[list[Claim]], Awaitable[list[Claim]]]

    async def due(
        self, lanes: Sequence[Lane] | None, limit: int, *, now: datetime | None = None
    ) -> list[int]:
        """Return the ids of due jobs."""
        return await self._sender.runner.alone(
            statements.unreadable_rows.due, self._sender.dialect, lanes, limit, now
        )

    async def claim_these(
        self, worker: int, jobs: Collection[int], *, now: datetime | None = None
    ) -> list[Claim]:
        """Claim jobs by their ids: as by doorbells, which need not have been rung."""
        claims: list[Claim] = []
        for _ in range(MAX_TRIES):
            runs = await self._sender.runner.alone(
                statements.unreadable_rows.waiting, self._sender.dialect, list(jobs)
            )
            if not runs:
                return []
            claims = await self._sender.apply(self._sender.rules.answer, worker, runs, now)
            if not getattr(claims, "again", False):
                break
        return await self._whole(claims)

    async def disown(self, jobs: Collection[int] | None) -> set[int]:
        """Delete attempts that no run has made."""
        return await self._sender.patient.run(
            statements.stray_attempts.disown, self._sender.dialect, jobs
        )

    async def bury(
        self, job: int, error_type: str, error: str, *, now: datetime | None = None
    ) -> bool:
        """End a waiting job as dead."""
        how = statements.unreadable_rows.Burial(
            self._sender.dialect, self._intake.enqueue, error_type, error, now
        )
        return await self._history_of(lambda: self._sender.insistent.run(how.bury, job), [job])

    async def _history_of(
        self, write: Callable[[], Awaitable[T]], jobs: Collection[int] | None
    ) -> T:
        """Write history; once more, after removing rows that were written by hand."""
        try:
            return await write()
        except StoreRefused:
            if not await self.disown(jobs):
                raise
        return await write()
