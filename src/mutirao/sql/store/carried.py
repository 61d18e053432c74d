"""The part of the SQL store for jobs that a broker carries."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from mutirao.model.brokers.doorbell import is_rung, unrung_lane
from mutirao.model.limits.fairness import queue_of
from mutirao.sql import statements

if TYPE_CHECKING:
    from mutirao.model.brokers.doorbell import Doorbell
    from mutirao.model.jobs.job import Claim, Lane
    from mutirao.sql.store.sender import StatementSender

MAX_TRIES = 3  # of an answer, where limits call others first


class SqlCarried:
    """The part of `SqlStore` that implements `mutirao.ports.carried`."""

    _sender: StatementSender
    _whole: Callable[[list[Claim]], Awaitable[list[Claim]]]

    async def ring(
        self, lanes: Sequence[Lane], limit: int, *, now: datetime | None = None
    ) -> list[Doorbell]:
        """Ring the doorbells of due jobs."""
        return await self._sender.apply(self._sender.rules.ring, lanes, limit, now)

    async def unring(self, doorbells: Collection[Doorbell]) -> set[int]:
        """Take back doorbells that no broker has taken."""
        if not doorbells:
            return set()
        return await self._sender.insistent.run(
            statements.carried.unring, self._sender.dialect, doorbells
        )

    async def answer(
        self, worker: int, doorbells: Collection[Doorbell], *, now: datetime | None = None
    ) -> list[Claim]:
        """Claim the jobs of doorbells."""
        rung = sorted({(bell.id, bell.run) for bell in doorbells})
        claims: list[Claim] = []
        for _ in range(MAX_TRIES if rung else 0):
            claims = await self._sender.apply(self._sender.rules.answer, worker, rung, now)
            if not getattr(claims, "again", False):
                break
        return await self._whole(claims)

    async def recall(
        self,
        queues: Collection[str] | None,
        grace: float,
        limit: int,
        *,
        reached: datetime | None = None,
        now: datetime | None = None,
    ) -> list[int]:
        """Take back doorbells that no worker has answered."""
        back: list[int] = []
        for lane, due_in in await self._sender.runner.alone(self._sender.rules.lanes(None, now)):
            queue = queue_of(unrung_lane(lane.queue))
            if not is_rung(lane.queue) or (queues is not None and queue not in queues):
                continue
            moment = lane.run_at - timedelta(seconds=due_in) if reached is None else reached
            before = moment - timedelta(seconds=grace)
            if lane.run_at <= before and len(back) < limit:
                back += await self._sender.insistent.run(
                    statements.carried.recall, self._sender.dialect, lane, before, limit - len(back)
                )
        return back
