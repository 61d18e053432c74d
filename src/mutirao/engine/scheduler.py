"""The worker's part in schedules: says which are in its code, and lets them tick.

Every worker reads the agenda now and then and sleeps until the next tick. When one has come, a
lease decides who sees to it, so that they do not all try; that a tick makes one job does not rest
on the lease, but on the transaction that makes it.
"""

from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from functools import partial
from time import monotonic

from mutirao import timetable
from mutirao.engine.logs import log
from mutirao.engine.pulse import Pulse
from mutirao.engine.trouble import Trouble
from mutirao.errors import InvalidSchedule, MutiraoError, StoreUnavailable
from mutirao.ports import Store
from mutirao.schedule import Schedule

DUTY = "schedule"
AWAIT = 1.0  # seconds between looks for the end of a job
VOUCH_EVERY = 60.0  # seconds; a schedule that is in no code is noticed after three of them


class Scheduler:
    """One worker's loop over everybody's schedules.

    Parameters:
        declared: the schedules in this worker's code.
        worker: returns its id, which changes should it be taken for gone.
        name: what it is called where the schedules are listed.
        look: seconds between looks at the agenda; new schedules are noticed within that.
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
        self._had_a_turn = False
        self._told: set[str] = set()

    async def declare(self, now: datetime | None = None) -> None:
        """Write down what the code says of its schedules, once, when the worker starts."""
        for schedule in self._declared:
            declare = partial(timetable.declare, schedule=schedule, worker=self._name)
            try:
                await self._store.amend_schedule(schedule.name, declare, now=now)
            except InvalidSchedule as over:
                log.error("a schedule in the code is not made: %s", over)
        await self._tell_of_the_lost([schedule.name for schedule in self._declared])

    async def run(self, pulse: Pulse, longest: float) -> None:
        """Let schedules tick for ever; wait while the database is away, so many seconds at most."""
        trouble = Trouble("schedules have to wait", "schedules go on", longest)
        vouch_at = monotonic() + VOUCH_EVERY
        while True:
            pulse.turn()
            try:
                wait = await self.run_once()
                if monotonic() >= vouch_at:
                    await self.vouch()
                    vouch_at = monotonic() + VOUCH_EVERY
                trouble.over()
            except Exception as error:  # noqa: BLE001 (raised where it does not pass)
                wait = trouble.met(error)
            await pulse.rest(wait)

    async def run_once(self, now: datetime | None = None) -> float:
        """Let tick what is due, if it is this worker's turn; return the seconds to sleep."""
        agenda = await self._store.agenda(now=now)
        if not agenda.due:
            return self._pause(agenda.next_in, agenda.awaits)
        mine = await self._store.lease(DUTY, self._worker(), ttl=self._look, every=0.0, now=now)
        if not mine:
            return self._look
        self._had_a_turn = True
        results = [await self._tick(name, now) for name in agenda.due]
        return 0.0 if all(results) else self._look

    async def vouch(self, now: datetime | None = None) -> None:
        """Say that these schedules are in the code of a live worker, and tell of those in none."""
        names = [schedule.name for schedule in self._declared]
        if names:
            await self._store.vouch(names, self._name, every=VOUCH_EVERY, now=now)
        await self._tell_of_the_lost(names)

    async def resign(self) -> None:
        """Let somebody else see to the next tick at once."""
        if self._had_a_turn:
            await self._store.lease(DUTY, self._worker(), ttl=0.0, every=0.0)

    def _pause(self, next_in: float | None, awaits: bool) -> float:
        longest = min(self._look, AWAIT) if awaits else self._look
        return longest if next_in is None else min(longest, next_in)

    async def _tick(self, name: str, now: datetime | None) -> bool:
        """Let one schedule tick; one that cannot must not keep the others from it."""
        try:
            done = await self._store.amend_schedule(name, timetable.tick, wait=False, now=now)
        except StoreUnavailable:
            raise
        except MutiraoError as error:
            log.error("schedule %s cannot tick: %s", name, error)
            return False
        except Exception:  # noqa: BLE001 (told; it must not keep the others from it)
            log.exception("schedule %s cannot tick", name)
            return False
        for job in done.jobs:
            log.info("schedule %s made job %s", name, job)
        return done.state is not None

    async def _tell_of_the_lost(self, mine: Collection[str]) -> None:
        for schedule in await self._store.schedules():
            if schedule.in_code is False and schedule.name not in {*mine, *self._told}:
                self._told.add(schedule.name)
                log.warning(
                    "schedule %s was in the code of worker %s until %s and is not in this one's:"
                    " it still ticks; remove or pause it, or put it back",
                    *(schedule.name, schedule.declared_by, schedule.declared_at),
                )
