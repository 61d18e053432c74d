"""The worker's part in schedules: it declares those in its code, and makes the jobs of ticks.

Every worker reads the agenda now and then and sleeps until the next tick. When one has come, a
lease decides which worker handles it, so that they do not all try. The guarantee that a tick makes
one job does not rest on the lease, but on the transaction that makes the job.
"""

from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from functools import partial
from time import monotonic

from mutirao.engine.logs import log
from mutirao.engine.pulse import Pulse
from mutirao.engine.trouble import Trouble
from mutirao.errors import InvalidSchedule, MutiraoError, StoreUnavailable
from mutirao.model import schedule_rules
from mutirao.model.schedule import Schedule
from mutirao.ports import Store

DUTY = "schedule"
AWAIT = 1.0  # seconds between checks for the end of a job
CONFIRM_EVERY = 60.0  # seconds; a schedule that is in no code is detected after three of them


class Scheduler:
    """One worker's loop over all schedules.

    Parameters:
        declared: the schedules in this worker's code.
        worker: returns its id, which changes if it was considered gone.
        name: the worker's name in the list of schedules.
        look: seconds between reads of the agenda; new schedules are noticed within that time.
    """

    def __init__(
        self,
        store: Store,
        declared: Sequence[Schedule],
        worker: Callable[[], int],
        name: str,
        look: float,
    ) -> None:
        self._store, self._declared, self._worker = store, declared, worker
        self._name, self._look = name, look
        self._has_held_lease = False
        self._told: set[str] = set()

    async def declare(self, now: datetime | None = None) -> None:
        """Write the schedules that the code declares, once, when the worker starts."""
        for schedule in self._declared:
            declare = partial(schedule_rules.declare, schedule=schedule, worker=self._name)
            try:
                await self._store.amend_schedule(schedule.name, declare, now=now)
            except InvalidSchedule as over:
                log.error("a schedule in the code is not made: %s", over)
        await self._warn_of_undeclared([schedule.name for schedule in self._declared])

    async def run(self, pulse: Pulse, longest: float) -> None:
        """Run schedules forever; while the database is away, wait up to `longest` seconds."""
        trouble = Trouble("schedules have to wait", "schedules go on", longest)
        confirm_at = monotonic() + CONFIRM_EVERY
        while True:
            pulse.turn()
            try:
                wait = await self.run_once()
                if monotonic() >= confirm_at:
                    await self.confirm_declared()
                    confirm_at = monotonic() + CONFIRM_EVERY
                trouble.over()
            except Exception as error:  # noqa: BLE001 (raised if it does not pass)
                wait = trouble.met(error)
            await pulse.rest(wait)

    async def run_once(self, now: datetime | None = None) -> float:
        """Make the jobs of due schedules, if this worker gets the lease; return the pause in s."""
        agenda = await self._store.agenda(now=now)
        if not agenda.due:
            return self._pause(agenda.next_in, agenda.awaits)
        mine = await self._store.lease(DUTY, self._worker(), ttl=self._look, every=0.0, now=now)
        if not mine:
            return self._look
        self._has_held_lease = True
        results = [await self._tick(name, now) for name in agenda.due]
        return 0.0 if all(results) else self._look

    async def confirm_declared(self, now: datetime | None = None) -> None:
        """Confirm that these schedules are in the code of a live worker; warn of those in none."""
        names = [schedule.name for schedule in self._declared]
        if names:
            await self._store.confirm_declared(names, self._name, every=CONFIRM_EVERY, now=now)
        await self._warn_of_undeclared(names)

    async def resign(self) -> None:
        """Release the lease, so that another worker can handle the next tick at once."""
        if self._has_held_lease:
            await self._store.lease(DUTY, self._worker(), ttl=0.0, every=0.0)

    def _pause(self, next_in: float | None, awaits: bool) -> float:
        longest = min(self._look, AWAIT) if awaits else self._look
        return longest if next_in is None else min(longest, next_in)

    async def _tick(self, name: str, now: datetime | None) -> bool:
        """Make the jobs of one schedule; a failure must not affect the other schedules."""
        try:
            done = await self._store.amend_schedule(name, schedule_rules.tick, wait=False, now=now)
        except StoreUnavailable:
            raise
        except MutiraoError as error:
            log.error("schedule %s cannot tick: %s", name, error)
            return False
        except Exception:  # noqa: BLE001 (logged; it must not affect the others)
            log.exception("schedule %s cannot tick", name)
            return False
        if done.state is not None and done.state.paused:
            log.error("schedule %s is paused: %s", name, done.state.reason)
        for job in done.jobs:
            log.info("schedule %s made job %s", name, job)
        return done.state is not None

    async def _warn_of_undeclared(self, mine: Collection[str]) -> None:
        for schedule in await self._store.schedules():
            if schedule.in_code is False and schedule.name not in {*mine, *self._told}:
                self._told.add(schedule.name)
                log.warning(
                    "schedule %s was in the code of worker %s until %s and is not in this one's:"
                    " it still ticks; remove or pause it, or put it back",
                    *(schedule.name, schedule.declared_by, schedule.declared_at),
                )
