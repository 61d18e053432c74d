"""The store of a simulated fleet: the real one, on SQLite in memory, and looks into its tables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Generator, Mapping
from contextlib import nullcontext
from datetime import datetime
from functools import cached_property
from typing import Any, NamedTuple, ParamSpec, TypeVar, cast

from mutirao.model.jobs.job import FINAL_OUTCOMES, Beat, OutcomeKind
from mutirao.model.limits.limits import LimitRecord, Rule
from mutirao.model.schedules.schedule import Agenda, ScheduleRecord
from mutirao.sql.connections.engines import Engines
from mutirao.sql.connections.runner import Body
from mutirao.sql.drivers.failures import translate_errors
from mutirao.sql.drivers.sqlite3 import Sqlite3Driver
from mutirao.sql.drivers.steps import Execute, Query, command, drive
from mutirao.sql.schema.types import MICROS_PER_SECOND, from_micros, to_micros
from mutirao.sql.store.limits import SqlLimits
from mutirao.sql.store.locking import applied
from mutirao.sql.store.schedules import SqlSchedules
from mutirao.sql.store.sender import StatementSender
from mutirao.testing import MemoryStore
from mutirao.testing.memory import InCallersThread
from tests.faults.simulation.world import BEGINNING

P = ParamSpec("P")
R = TypeVar("R")


# In other words than SQLAlchemy's, which take a third of a fleet's time.
_TAKEN = """INSERT INTO mutirao_duty AS d (name, taken_at, worker, expires_at)
VALUES (?1, ?2, ?3, ?4) ON CONFLICT (name) DO UPDATE
SET worker = ?3, taken_at = ?2, expires_at = ?4
WHERE (d.expires_at <= ?2 OR d.worker = ?3) AND d.taken_at <= ?5 RETURNING name"""
_BEATEN = """UPDATE mutirao_worker SET beat_at = ?, expires_at = ?, stuck = ?, late = ? WHERE id = ?
AND NOT EXISTS (SELECT 1 FROM mutirao_live WHERE worker = ? AND cancel) RETURNING id"""

_HAS = "SELECT 1 FROM mutirao_live WHERE id = ? AND run = ? AND worker IS NOT NULL"


class Live(NamedTuple):
    """A job that has not ended."""

    run_at: datetime
    task: str
    run: int
    worker: int | None
    lost: int

    def is_held(self, run: int) -> bool:
        """Whether this run is the last one, and a worker has it."""
        return self.worker is not None and self.run == run


class Ended(NamedTuple):
    """How a job ended, and when: seconds since the beginning."""

    outcome: OutcomeKind
    at: float


class _Schedules(SqlSchedules):
    there_are_some = False

    async def agenda(self, *, without: Collection[str] = (), now: datetime | None = None) -> Agenda:
        """Return an empty one to a fleet without schedules, which asks for them all the time."""
        if not self.there_are_some:
            return Agenda((), None, False)
        return await super().agenda(without=without, now=now)

    async def listed(self) -> list[ScheduleRecord]:
        """Return none: those in no code would be told."""
        return []


class _Limits(SqlLimits):
    def __init__(self, sender: StatementSender, declared: set[str]) -> None:
        super().__init__(sender)
        self._known = declared

    async def put(self, rule: Rule, *more: Any, **how: Any) -> None:
        """Declare each once."""
        if rule.name not in self._known:
            await super().put(rule, *more, **how)
            self._known.add(rule.name)

    async def listed(self, most: int | None = None) -> list[LimitRecord]:
        """Return none: those in no code would be told."""
        return []


class FleetStore(MemoryStore):
    """The store of a fleet.

    Its clock is the world's once `fleet.patched` has been called; `now` tells the same.
    """

    def __init__(self, now: Callable[[], datetime]) -> None:
        super().__init__(session_factory=lambda: nullcontext(object()))
        self._now = now
        self._declared: set[str] = set()
        self._one_thread = _OneThread(self.engines)
        self._run_by(self._one_thread)

    @cached_property
    def schedules(self) -> _Schedules:
        """Those of the fleet."""
        return _Schedules(self._sender)

    @cached_property
    def limits(self) -> _Limits:
        """All workers of a fleet have the same code: the first one's declarations stand for all."""
        return _Limits(self._sender, self._declared)

    async def lease(self, duty: str, worker: int, *, ttl: float, every: float, **_: Any) -> bool:
        """Ask for a duty, in one statement instead of two."""
        now = to_micros(self._now())
        values = (
            duty,
            now,
            worker,
            now + int(ttl * MICROS_PER_SECOND),
            now - int(every * MICROS_PER_SECOND),
        )
        return bool(self._rows(_TAKEN, values))

    # All workers of a fleet have the same code, so the first one's declarations stand for all.

    async def declare_fairness(self, tasks: Mapping[str, str | None]) -> None:
        """Declare that once."""
        if "fair" not in self._declared:
            await super().declare_fairness(tasks)
            self._declared.add("fair")

    async def answered(self) -> None:
        """Answer."""

    async def beat(self, worker: int, **how: Any) -> Beat:
        """Beat; where there is something to cancel, as any store."""
        now = to_micros(self._now())
        values = now, now + int(how["expiry"] * MICROS_PER_SECOND), how["stuck"], how["late"]
        beaten = self._rows(_BEATEN, (*values, worker, worker))
        return Beat(True, ()) if beaten else await super().beat(worker, **how)

    def live(self) -> dict[int, Live]:
        """Return the live jobs, by id."""
        rows = self._rows(
            "SELECT l.id, l.run_at, j.task, l.run, l.worker, l.lost"
            " FROM mutirao_live l JOIN mutirao_job j ON j.id = l.id ORDER BY l.id"
        )
        return {id: Live(from_micros(run_at), *rest) for id, run_at, *rest in rows}

    def has(self, job: int, run: int) -> bool:
        """Return whether some worker holds this run of a job."""
        return bool(self._rows(_HAS, (job, run)))

    def asked(self) -> dict[int, tuple[str, datetime]]:
        """Return the task of each job, and when it was enqueued, by id."""
        rows = self._rows("SELECT id, task, enqueued_at FROM mutirao_job ORDER BY id")
        return {id: (task, from_micros(at)) for id, task, at in rows}

    def ended(self) -> dict[int, Ended]:
        """Return the ends of the jobs that have ended, by id."""
        found = self._rows("SELECT job, outcome, finished_at FROM mutirao_attempt")
        ends = [(job, OutcomeKind(kind), from_micros(at) - BEGINNING) for job, kind, at in found]
        return {
            job: Ended(kind, at.total_seconds()) for job, kind, at in ends if kind in FINAL_OUTCOMES
        }

    def listening(self) -> list[int]:
        """Return the workers that want to be notified."""
        return [id for (id,) in self._rows("SELECT id FROM mutirao_worker WHERE listening")]

    def ticks(self) -> list[datetime]:
        """Return the ticks that made jobs, as these say, in order."""
        found = self._rows(
            "SELECT metadata ->> 'tick' AS tick FROM mutirao_job WHERE tick IS NOT NULL ORDER BY 1"
        )
        return [datetime.fromisoformat(tick) for (tick,) in found]

    def ticks_next(self) -> bool:
        """Return whether a schedule will tick once more, or nobody has written it down yet."""
        [(written, coming)] = self._rows("SELECT count(*), count(next_at) FROM mutirao_schedule")
        return not written or bool(coming)

    def attempts(self) -> dict[int, list[tuple[int, OutcomeKind]]]:
        """Return the runs that have ended of each job, with their outcomes."""
        found = defaultdict[int, list[tuple[int, OutcomeKind]]](list)
        for job, run, outcome in self._rows("SELECT job, run, outcome FROM mutirao_attempt"):
            found[job].append((run, OutcomeKind(outcome)))
        return found

    def _rows(self, sql: str, params: tuple[Any, ...] = ()) -> list[Any]:
        return self._one_thread.driver.handle(Execute(sql, params))


class _OneThread(InCallersThread):
    """Keeps two connections, and gives steps to the driver: SQLAlchemy takes most of the time.

    What was built with SQLAlchemy goes through it.
    """

    def __init__(self, engines: Engines) -> None:
        super().__init__(engines)
        self._together = engines.sync().connect()
        self._alone = engines.sync(alone=True).connect()
        own: Any = self._alone.connection.driver_connection
        self.driver = Sqlite3Driver(own)

    def run_sync(self, body: Body[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        if body is applied:
            rule, *rest = args
            return cast(R, self._drive(self._begun(cast(Any, rule)(*rest, **kwargs))))
        with translate_errors(), self._together.begin():
            return body(self._together, *args, **kwargs)

    def alone_sync(self, body: Any, /, *args: Any, **kwargs: Any) -> Any:
        if isinstance(body, Generator):
            return self._drive(body)
        with translate_errors():
            return body(self._alone, *args, **kwargs)

    def _drive(self, steps: Query[R]) -> R:
        with translate_errors():
            return drive(steps, self.driver)

    def _begun(self, steps: Query[R]) -> Query[R]:
        """Return steps in a transaction of their own."""
        yield command("BEGIN IMMEDIATE")
        try:
            result = yield from steps
            yield command("COMMIT")
        except BaseException:
            yield command("ROLLBACK")
            raise
        return result
