"""The part of a store for schedules, as a protocol.

The meaning of `now` is in `mutirao.ports.store`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from mutirao.model.schedules.schedule import Agenda, Amend, Amended, ScheduleRecord, TickResult


class SchedulesApi(Protocol):
    """`store.schedules`.

    The functions of `mutirao.model.schedules.schedule_rules` decide how one changes.
    """

    async def agenda(self, *, without: Collection[str] = (), now: datetime | None = None) -> Agenda:
        """Return the schedules that are due, and the time until the next one is.

        A schedule is due if it is not paused and its next tick has come, or if it awaits the end of
        a job that is no longer live. If very many are due, only the first ones are returned, at
        least `mutirao.model.schedules.schedule.MANY_DUE`. Schedules named in `without` are left
        out, as by `tick`. Reads only.
        """
        ...

    async def amend(self, name: str, amend: Amend, *, now: datetime | None = None) -> Amended:
        """Lock a schedule, ask `amend` how it changes, and write the change: one transaction.

        `amend` receives the state of the schedule, with everything that was committed before the
        lock was taken, and the time. It may be called again if another transaction created a
        schedule of that name at the same moment. Its errors reach the caller, and nothing is
        written. Jobs are enqueued as usual, idle workers are woken, and each job is recorded with
        its tick: no tick ever gets a second job.

        Raises:
            WrongState: a tick has a job already; nothing was written.
        """
        ...

    async def amend_all(
        self, amends: Mapping[str, Amend], *, now: datetime | None = None
    ) -> list[Amended]:
        """Change each of several schedules as by `amend`: all in one transaction, or none.

        `amends` are by the schedules' names; what was written is returned in their order. If one
        of them raises, none is changed. Schedules that are not changed, and new ones, cost a few
        statements for all of them.

        Raises:
            WrongState: a tick has a job already; nothing was written.
        """
        ...

    async def tick(
        self, limit: int, *, without: Collection[str] = (), now: datetime | None = None
    ) -> list[TickResult]:
        """Let due schedules tick, up to `limit` of them, in one transaction; return the results.

        Each is changed as by `amend` with `mutirao.model.schedules.schedule_rules.tick`.
        Those that have been due longest come first. Schedules that another transaction has locked
        are skipped, never waited for, so several workers take different ones. Fewer than `limit`
        are taken if they make very many jobs. One that cannot tick, because of its row or because
        the database refuses what it makes, stays as it was and is returned with the error; the
        others are written. Schedules named in `without` are left alone.

        Raises:
            StoreError: the database cannot be used, or refuses to say which are due; nothing was
                written.
        """
        ...

    async def listed(self) -> list[ScheduleRecord]:
        """List the schedules by name, with their next ticks and the outcomes of their last jobs."""
        ...

    async def confirm_declared(
        self, names: Collection[str], worker: str, *, every: float, now: datetime | None = None
    ) -> None:
        """Record that a worker has schedules of these names in its code.

        Only for those that were declared in code and whose last confirmation is older than `every`
        seconds. Those that another transaction has locked are skipped until the next call.
        """
        ...
