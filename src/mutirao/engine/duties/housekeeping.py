"""Runs housekeeping that equal workers share: one of them at a time performs each duty.

A lease row per duty decides which one; no worker is in charge for longer than its lease.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime

from mutirao.engine.loops import LoopHealth, LoopRetry, forever
from mutirao.engine.measurement_listeners import Listeners
from mutirao.engine.settings import WorkerSettings
from mutirao.engine.worker_row import WorkerRow
from mutirao.log import log
from mutirao.ports import Store

FIRST_SEARCH_AFTER = 60.0  # seconds before the first roll-up and the first search for leftovers
# Seconds after which a doorbell is taken back although no worker here carries its queue, and how
# many at a time.
UNANSWERED_FOR, MAX_RECALLED = 86_400.0, 10_000
MAX_IDS_PER_LOG_LINE = 50  # history has all of them

Portion = Callable[[datetime | None], Awaitable[bool]]  # does a part; returns whether there is more


@dataclass(frozen=True, slots=True)
class Duty:
    """Work that one worker does at intervals (in seconds), holding a lease for `ttl` seconds.

    `after`: seconds after its start before a worker asks for the duty, so that its jobs come first.
    """

    name: str
    every: float
    ttl: float
    work: Portion
    after: float = 0.0


class Housekeeping:
    """The duties themselves. Each does a part of its work and returns whether there is more."""

    def __init__(
        self,
        store: Store,
        settings: WorkerSettings,
        may_judge_others: Callable[[], bool],
        listeners: Listeners | None = None,
    ) -> None:
        self._store, self._settings, self._listeners = store, settings, listeners
        self._may_judge_others = may_judge_others

    def duties(self) -> list[Duty]:
        """Return the duties with their intervals."""
        often = self._settings.rescue_every
        return [
            # Quick and harmless to repeat, so its lease must not outlive a killed worker.
            Duty("rescue", every=often, ttl=often, work=self.rescue),
            Duty(
                "orphans",
                every=4 * self._settings.expiry,
                ttl=often,
                work=self.rescue_orphans,
                after=self._settings.expiry,  # it reads all due jobs: 1.6 s for 5 million
            ),
            Duty("prune", every=60.0, ttl=300.0, work=self.prune),
            # Few entries, kept for long: no statement a minute for them.
            Duty(
                "audit", every=3_600.0, ttl=300.0, work=self.prune_audit, after=FIRST_SEARCH_AFTER
            ),
            Duty(
                "statistics",
                every=600.0,
                ttl=300.0,
                work=self.refresh_statistics,
                # It reads 30,000 rows of each table; these 0.2 s would delay the first jobs.
                after=self._settings.heartbeat,
            ),
            Duty("hours", every=60.0, ttl=300.0, work=self.roll_up, after=FIRST_SEARCH_AFTER),
            Duty("leftovers", every=600.0, ttl=300.0, work=self.mend, after=FIRST_SEARCH_AFTER),
        ]

    async def rescue(self, now: datetime | None = None) -> bool:
        """Rescue the jobs of vanished workers."""
        return await self._rescue(orphans=False, now=now)

    async def rescue_orphans(self, now: datetime | None = None) -> bool:
        """Rescue jobs, also those that a vanished worker held under an id that was gone before."""
        return await self._rescue(orphans=True, now=now)

    async def _rescue(self, *, orphans: bool, now: datetime | None) -> bool:
        if not self._may_judge_others():
            return False
        rescued = await self._store.rescue(orphans=orphans, now=now)
        if rescued:
            ids = ", ".join(str(id) for id, _ in rescued[:MAX_IDS_PER_LOG_LINE])
            log.warning("rescued %s jobs of vanished workers: %s", len(rescued), ids)
            if self._listeners is not None:
                self._listeners.rescued(len(rescued))
        return False

    async def prune(self, now: datetime | None = None) -> bool:
        """Delete some rows that are older than their retention, and end some expired jobs."""
        limit = self._settings.prune_batch
        more = await self._end_expired(limit, now)
        for outcome, age in self._settings.retention.items():
            if age is not None:
                pruned = await self._store.prune(outcome, age.total_seconds(), limit, now=now)
                more = more or pruned == limit
        if (age := self._settings.keep_inbox) is not None:
            forgotten = await self._store.prune_inbox(age.total_seconds(), limit, now=now)
            more = more or forgotten == limit
        if (age := self._settings.keep_said) is not None:
            forgotten = await self._store.federation.prune_said(age.total_seconds(), limit, now=now)
            more = more or forgotten == limit
        return more

    async def _end_expired(self, limit: int, now: datetime | None) -> bool:
        ended = await self._store.end_expired(limit, now=now)
        if ended:
            log.info("%s jobs expired before an attempt started", ended)
        return ended == limit

    async def prune_audit(self, now: datetime | None = None) -> bool:
        """Delete some entries of the audit that are older than their retention."""
        if (age := self._settings.keep_audit) is None:
            return False
        limit = self._settings.prune_batch
        return await self._store.audit.prune(age.total_seconds(), limit, now=now) == limit

    async def roll_up(self, now: datetime | None = None) -> bool:
        """Add up finished jobs by the hour, in parts."""
        keep = self._settings.keep_hours
        seconds = None if keep is None else keep.total_seconds()
        return await self._store.roll_up(seconds, now=now)

    async def mend(self, now: datetime | None = None) -> bool:
        """Repair what manual changes of the tables have left behind."""
        mended = await self._store.mend(now=now)
        for what, number in mended.items():
            log.warning("mended %s %s", number, what)
        if back := await self._store.recall(None, UNANSWERED_FOR, MAX_RECALLED, now=now):
            log.warning("took back %s doorbells that no worker answered for a day", len(back))
        return False

    async def refresh_statistics(self, now: datetime | None = None) -> bool:
        """Update the query planner's statistics."""
        await self._store.refresh_statistics()
        return False


async def keep(
    row: WorkerRow,
    duty: Duty,
    pulse: LoopHealth,
    longest: float,
    keeps_house: asyncio.Event,
) -> None:
    """Perform a duty whenever it is due and no other worker does it; forever.

    `longest`: the longest wait between two tries, in seconds. `keeps_house`: set while this worker
    shall ask for duties.
    """

    async def turn() -> float:
        await pulse.until(keeps_house)
        if await row.store.lease(duty.name, row.id, ttl=duty.ttl, every=duty.every):
            while await duty.work(None):
                pulse.turn()
        return duty.every

    trouble = LoopRetry(f"duty {duty.name} has to wait", f"duty {duty.name} goes on", longest)
    await forever(turn, pulse, trouble, after=duty.after)
