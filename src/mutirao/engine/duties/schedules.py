"""Declares the schedules of the code, makes the jobs of due ticks, and pauses schedules.

Every worker reads the agenda at intervals and sleeps until the next tick. When a tick is due, a
lease decides which worker handles it, so that they do not all try. When very many are due, all
workers handle them, each taking different ones. The guarantee that a tick makes one job does not
depend on the lease, but on the transaction that makes the job.
"""

import asyncio
from collections.abc import Collection, Sequence
from datetime import datetime
from functools import partial
from time import monotonic

from mutirao.aio import wait_for
from mutirao.engine.calls.outcomes import shortened
from mutirao.engine.loops import LoopHealth, LoopRetry, forever
from mutirao.engine.worker_row import WorkerRow
from mutirao.errors import InvalidSchedule, MutiraoError, StoreUnavailable, WrongState
from mutirao.log import log
from mutirao.model.schedules import schedule_rules
from mutirao.model.schedules.schedule import MAX_DUE_NAMES, Schedule, TickResult
from mutirao.ports import Store

DUTY = "schedule"
MAX_SCHEDULES_PER_BATCH = 200  # schedules that tick in one transaction: 50 ms
END_CHECK_INTERVAL = 1.0  # seconds between checks for the end of a job
CONFIRM_EVERY = 60.0  # seconds; a schedule that is in no code is detected after three of them


class Scheduler:
    """One worker's loop over all schedules.

    Parameters:
        declared: the schedules in this worker's code.
        row: the worker's.
        look: seconds between reads of the agenda; new schedules are noticed within that time.
        keeps_house: set while this worker shall read it.
    """

    def __init__(
        self,
        row: WorkerRow,
        declared: Sequence[Schedule],
        look: float,
        keeps_house: asyncio.Event,
    ) -> None:
        self._row, self._store, self._declared = row, row.store, declared
        self._name, self._look, self._keeps_house = row.facts.name, look, keeps_house
        self._has_held_lease, self._confirm_at = False, 0.0  # monotonic
        self._batch = MAX_SCHEDULES_PER_BATCH
        self._failed: dict[str, float] = {}  # schedules that cannot tick, and until when to wait
        self._reported: set[str] = set()

    async def declare(self, now: datetime | None = None) -> None:
        """Write the schedules that the code declares, once, when the worker starts."""
        for schedule in self._declared:
            declare = partial(schedule_rules.declare, schedule=schedule, worker=self._name)
            try:
                await self._store.schedules.amend(schedule.name, declare, now=now)
            except InvalidSchedule as over:
                log.error("a schedule in the code is not made: %s", over)
        await self._warn_of_undeclared([schedule.name for schedule in self._declared])

    async def run(self, pulse: LoopHealth, longest: float) -> None:
        """Run schedules forever; while the database is away, wait up to `longest` seconds."""
        trouble = LoopRetry("schedules have to wait", "schedules go on", longest)
        self._confirm_at = monotonic() + CONFIRM_EVERY
        await forever(self._turn, pulse, trouble)

    async def _turn(self) -> float:
        if self._keeps_house.is_set():
            wait = await self.run_once()
        else:
            wait = 0.0
            await wait_for(self._keeps_house, self._look)
        if monotonic() >= self._confirm_at:
            await self.confirm_declared()
            self._confirm_at = monotonic() + CONFIRM_EVERY
        return wait

    async def run_once(self, now: datetime | None = None) -> float:
        """Make the jobs of some due schedules, if it is this worker's turn; return the pause in s.

        It is this worker's turn if it gets the lease, or if there are enough ticks for all workers.
        Schedules that have failed wait until the next read; otherwise they would delay the others.
        """
        self._failed = {name: end for name, end in self._failed.items() if end > monotonic()}
        agenda = await self._store.schedules.agenda(without=self._failed, now=now)
        if not agenda.due:
            return self._pause(agenda.next_in, agenda.awaits)
        mine = await self._store.lease(DUTY, self._row.id, ttl=self._look, every=0.0, now=now)
        self._has_held_lease = self._has_held_lease or mine
        if not mine and len(agenda.due) < MAX_DUE_NAMES:
            return self._look
        if await self._tick(now):
            return 0.0
        return self._pause(agenda.next_in, agenda.awaits)

    async def confirm_declared(self, now: datetime | None = None) -> None:
        """Confirm that these schedules are in the code of a live worker; warn of those in none."""
        names = [schedule.name for schedule in self._declared]
        if names:
            await self._store.schedules.confirm_declared(
                names, self._name, every=CONFIRM_EVERY, now=now
            )
        if self._keeps_house.is_set():
            await self._warn_of_undeclared(names)

    async def resign(self) -> None:
        """Release the lease, so that another worker can handle the next tick at once."""
        if self._has_held_lease:
            await self._store.lease(DUTY, self._row.id, ttl=0.0, every=0.0)

    def _pause(self, next_in: float | None, awaits: bool) -> float:
        longest = min(self._look, END_CHECK_INTERVAL) if awaits else self._look
        return longest if next_in is None else min(longest, next_in)

    async def _tick(self, now: datetime | None) -> bool:
        """Make the jobs of a batch of schedules; return whether there were any.

        A batch that takes too long is halved, and grows again by tenths.
        """
        try:
            results = await self._store.schedules.tick(self._batch, without=self._failed, now=now)
        except StoreUnavailable:
            self._batch = max(1, self._batch // 2)
            raise
        self._batch = min(MAX_SCHEDULES_PER_BATCH, self._batch + 1 + self._batch // 10)
        for each in results:
            self._log_result(each)
        return bool(results)

    def _log_result(self, result: TickResult) -> None:
        name, state, jobs, error = result
        if error is not None:
            self._failed[name] = monotonic() + self._look
            trace = None if isinstance(error, MutiraoError) else error
            log.error("schedule %s cannot tick: %s", name, error, exc_info=trace)
        if state is not None and state.paused:
            log.error("schedule %s is paused: %s", name, state.reason)
        for job in jobs:
            log.info("schedule %s made job %s", name, job)

    async def _warn_of_undeclared(self, mine: Collection[str]) -> None:
        found = [each for each in await self._store.schedules.listed() if each.in_code is False]
        left = [schedule for schedule in found if schedule.name not in mine]
        for schedule in left:
            if schedule.name not in self._reported:
                log.warning(
                    "schedule %s was in the code of worker %s until %s and is not in this one's:"
                    " it still ticks; remove or pause it, or put it back",
                    *(schedule.name, schedule.declared_by, schedule.declared_at),
                )
        self._reported = {schedule.name for schedule in left}


class Pauser:
    """Pauses schedules through the worker's store. Created in the worker's event loop."""

    def __init__(self, store: Store) -> None:
        self._store, self._loop = store, asyncio.get_running_loop()

    def pause(self, name: str, reason: str) -> None:
        """Pause a schedule from a handler's thread; return once that is written.

        Raises:
            UnknownSchedule: there is none of that name.
            WrongState: it is called in the event loop, which it would block.
        """
        try:
            here = asyncio.get_running_loop()
        except RuntimeError:
            here = None
        if here is self._loop:
            raise WrongState("a coroutine must not wait here; use `await job.schedule.apause()`")
        asyncio.run_coroutine_threadsafe(self.apause(name, reason), self._loop).result()

    async def apause(self, name: str, reason: str) -> None:
        """Pause a schedule, from a coroutine.

        Raises:
            UnknownSchedule: there is none of that name.
        """
        pause = partial(schedule_rules.pause, name=name, reason=shortened(reason))
        await self._store.schedules.amend(name, pause)
