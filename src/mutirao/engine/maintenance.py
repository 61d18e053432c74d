"""The housekeeping that equal workers share: each duty is done by one of them at a time.

A lease row for each duty decides who; nobody is in charge for longer than that.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime

from mutirao.engine.backoff import Backoff
from mutirao.engine.settings import WorkerSettings
from mutirao.errors import StoreUnavailable
from mutirao.ports import Store

log = logging.getLogger("mutirao")

MOST_TOLD = 50  # ids in one line of the log; all of them are in history

Work = Callable[[datetime | None], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Duty:
    """Something one worker does every so often (seconds), holding a lease for `ttl` seconds.

    `after`: seconds that a worker leaves to its jobs before it asks for the duty first.
    """

    name: str
    every: float
    ttl: float
    work: Work
    after: float = 0.0


class Housekeeping:
    """The duties themselves."""

    def __init__(
        self, store: Store, settings: WorkerSettings, may_judge_others: Callable[[], bool]
    ) -> None:
        self._store, self._settings = store, settings
        self._may_judge_others = may_judge_others

    def duties(self) -> list[Duty]:
        """Return the duties with their pace."""
        often = self._settings.rescue_every
        return [
            # Quick and harmless to do twice, so its lease must not outlive a killed holder.
            Duty("rescue", every=often, ttl=often, work=self.rescue),
            Duty(
                "orphans",
                every=4 * self._settings.expiry,
                ttl=often,
                work=self.rescue_orphans,
                after=self._settings.expiry,  # it looks through all that is due: 1.6 s of 5 million
            ),
            Duty("prune", every=60.0, ttl=300.0, work=self.prune),
            Duty(
                "statistics",
                every=600.0,
                ttl=300.0,
                work=self.refresh_statistics,
                # It reads 30,000 rows of each table, 0.2 s that would delay the first jobs.
                after=self._settings.heartbeat,
            ),
        ]

    async def rescue(self, now: datetime | None = None) -> None:
        """Give the jobs of vanished workers back."""
        await self._rescue(orphans=False, now=now)

    async def rescue_orphans(self, now: datetime | None = None) -> None:
        """As `rescue`; also what one took under an id that was gone, before it vanished itself."""
        await self._rescue(orphans=True, now=now)

    async def _rescue(self, *, orphans: bool, now: datetime | None) -> None:
        if not self._may_judge_others():
            return
        rescued = await self._store.rescue(orphans=orphans, now=now)
        if rescued:
            ids = ", ".join(str(id) for id, _ in rescued[:MOST_TOLD])
            log.warning("rescued %s jobs of vanished workers: %s", len(rescued), ids)

    async def prune(self, now: datetime | None = None) -> None:
        """Delete finished jobs that are older than their retention, in small transactions."""
        limit = self._settings.prune_batch
        for outcome, age in self._settings.retention.items():
            if age is None:
                continue
            before = age.total_seconds()
            pruned = limit
            while pruned == limit:
                pruned = await self._store.prune(outcome, before, limit, now=now)

    async def refresh_statistics(self, now: datetime | None = None) -> None:
        """Bring the planner's statistics up to date."""
        await self._store.refresh_statistics()


async def keep(store: Store, duty: Duty, worker: Callable[[], int]) -> None:
    """Do a duty whenever its turn comes and nobody else does it; for ever."""
    backoff = Backoff()
    await asyncio.sleep(duty.after)
    while True:
        try:
            if await store.lease(duty.name, worker(), ttl=duty.ttl, every=duty.every):
                await duty.work(None)
            if backoff.reset():
                log.warning("the database is back; duty %s goes on", duty.name)
            await asyncio.sleep(duty.every)
        except StoreUnavailable as gone:
            wait = backoff.next()
            log.warning("duty %s has to wait: %s", duty.name, gone)
            await asyncio.sleep(wait)
