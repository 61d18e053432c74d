"""How long it takes until everything is well again: from the end of a trouble, or a start."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Any

from sqlalchemy import Connection, or_, select

from mutirao.sql.schema.tables import job, live, parked, schedule, worker
from tests.faults.kit.reading import AWAY, Reader
from tests.faults.ordeal.app import MOST
from tests.faults.ordeal.fleet import Fleet
from tests.faults.ordeal.journal import Journal

_tasks = select(job.c.task).join(live, live.c.id == job.c.id)
PACE = 0.25  # seconds between two looks
TOLD = 5  # jobs that are described


@dataclass
class Recovery:
    """Seconds until the first job started, until all that were due had, and until each place did.

    None stands for what has not come about.
    """

    first: float | None = None
    due: float | None = None
    places: dict[int, float | None] = field(default_factory=dict)
    waiting: list[int] = field(default_factory=list)  # of those that were due, who still waits

    @property
    def all(self) -> float | None:
        """Seconds until all of it had come about."""
        every = [self.first, self.due, *self.places.values()]
        return None if None in every else max(each for each in every if each is not None)

    def __str__(self) -> str:
        places = ", ".join(_seconds(each) for _, each in sorted(self.places.items()))
        return (
            f"first job after {_seconds(self.first)} s, all that were due after"
            f" {_seconds(self.due)} s, workers after {places} s"
        )


class Watch:
    """Watches a recovery from a moment (monotonic) on."""

    def __init__(self, reader: Reader, journal: Journal, fleet: Fleet, since: float) -> None:
        self._reader, self._journal, self._fleet, self._since = reader, journal, fleet, since
        self._due: Mapping[int, int] | None = None
        self.recovery = Recovery()

    def wait(self, seconds: float) -> bool:
        """Watch until all is well, for so many seconds after the beginning at most."""
        while self._look() is None:
            if monotonic() - self._since > seconds:
                return False
            time.sleep(PACE)
        return True

    def _look(self) -> float | None:
        found = self.recovery
        self._journal.read()
        found.first = self._until(self._journal.first_since(self._since))
        for place in self._fleet.places():
            found.places[place] = self._until(self._journal.first_since(self._since, place))
        if found.due is None:
            self._look_for_due()
        return found.all

    def _until(self, moment: float | None) -> float | None:
        return None if moment is None else moment - self._since

    def _look_for_due(self) -> None:
        try:
            with self._reader.snapshot() as connection:
                if self._due is None:
                    self._due = self._find_due(connection)
                waiting = self._find_waiting(connection, self._due)
        except AWAY:
            return
        self.recovery.waiting = waiting
        if not waiting:
            self.recovery.due = monotonic() - self._since

    def describe(self) -> str:
        """Return who holds some of the jobs that still wait, and since when."""
        which = live.c.id.in_(self.recovery.waiting[:TOLD])
        columns = live.c["id", "run", "attempt", "worker", "claimed_at", "run_at", "lost"]
        rows = select(job.c.task, *columns).join(job, job.c.id == live.c.id).where(which)
        try:
            with self._reader.snapshot() as connection:
                ids = connection.scalars(select(worker.c.id)).all()
                now = datetime.now(UTC)
                told = [_standing(row, ids, now) for row in connection.execute(rows)]
        except AWAY as error:
            return f"cannot be told: {error}"
        return "; ".join(told) or "none any more"

    def _find_due(self, connection: Connection) -> Mapping[int, int]:
        """Return (id: run) of the jobs that wait though they are due, or behind a limit."""
        waits = or_(live.c.run_at <= datetime.now(UTC), live.c.id.in_(select(parked.c.job)))
        rows = select(live.c.id, live.c.run).where(or_(live.c.worker.is_not(None), waits))
        return {row.id: row.run for row in connection.execute(rows)}

    def _find_waiting(self, connection: Connection, due: Mapping[int, int]) -> list[int]:
        alive = {process.pid for process in self._fleet.running().values()}
        rows = connection.execute(select(live.c.id, live.c.run, live.c.worker))
        return [
            id
            for id, run, holder in rows
            if id in due and (run == due[id] if holder is None else not self._runs(id, run, alive))
        ]

    def _runs(self, id: int, run: int, alive: set[int]) -> bool:
        execution = self._journal.executions.get((id, run))
        return execution is not None and execution.pid in alive


def _standing(row: Any, workers: Sequence[int], now: datetime) -> str:
    what = f"{row.id} ({row.task}, run {row.run}, attempt {row.attempt}, lost {row.lost})"
    if row.worker is None:
        return f"{what} due for {(now - row.run_at).total_seconds():.1f} s"
    known = "" if row.worker in workers else ", who is gone"
    since = "" if row.claimed_at is None else f" for {(now - row.claimed_at).total_seconds():.1f} s"
    return f"{what} held by worker {row.worker}{known}{since}"


def idle(connection: Connection, late: float, slots: int) -> list[str]:
    """Return what nobody does though there is room for it.

    Parameters:
        late: seconds for which a job may be due before somebody has to have begun it.
        slots: how many jobs all workers together may run.
    """
    since = datetime.now(UTC) - timedelta(seconds=late)
    held = Counter(connection.scalars(_tasks.where(live.c.worker.is_not(None))))
    waiting = Counter(
        connection.scalars(_tasks.where(live.c.worker.is_(None), live.c.run_at < since))
    )
    free = {task: slots - held.total() for task in waiting}
    free["limited"] = min(slots - held.total(), MOST - held["limited"])
    said = [
        f"{count} jobs ({task}) have been due for {late:g} s, with {free[task]} slots free"
        for task, count in sorted(waiting.items())
        if free[task] > 0
    ]
    overdue = connection.scalars(select(schedule.c.name).where(schedule.c.next_at < since))
    return said + [f"schedule {name} has been due for {late:g} s" for name in overdue]


def unregistered(connection: Connection, fleet: Fleet) -> list[str]:
    """Return which workers run and have no row of their own that is alive."""
    alive = select(worker.c.pid).where(worker.c.expires_at > datetime.now(UTC))
    pids = set(connection.scalars(alive))
    return [
        f"worker {place} (pid {process.pid}) runs and is not registered"
        for place, process in fleet.running().items()
        if process.pid not in pids
    ]


def _seconds(value: float | None) -> str:
    return "never" if value is None else f"{value:.1f}"
