"""The store of a simulated fleet: the real one, on SQLite in memory, and looks into its tables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator
from contextlib import nullcontext
from datetime import datetime
from typing import Any, NamedTuple, ParamSpec, TypeVar

from mutirao.model.job import OutcomeKind
from mutirao.model.schedule import Agenda
from mutirao.sql.connections.engines import Engines
from mutirao.sql.connections.runner import Body
from mutirao.sql.drivers import kinds
from mutirao.sql.drivers.failures import translate_errors
from mutirao.sql.schema.instant import from_micros
from mutirao.testing import MemoryStore
from mutirao.testing.memory import InCallersThread

P = ParamSpec("P")
R = TypeVar("R")


class Live(NamedTuple):
    """A job that has not ended."""

    run_at: datetime
    task: str
    run: int
    worker: int | None
    lost: int


class FleetStore(MemoryStore):
    """The store of a fleet. Its clock is the world's once `fleet.patched` has been called."""

    def __init__(self) -> None:
        super().__init__(session_factory=lambda: nullcontext(object()))
        self._run_by(_OneThread(self.engines))

    async def agenda(self, *, now: datetime | None = None) -> Agenda:
        """Return an empty one: a fleet has no schedules, and asks for them all the time."""
        return Agenda((), None, False)

    def live(self) -> dict[int, Live]:
        """Return the live jobs, by id."""
        rows = self._look(
            "SELECT l.id, l.run_at, j.task, l.run, l.worker, l.lost"
            " FROM mutirao_live l JOIN mutirao_job j ON j.id = l.id ORDER BY l.id"
        )
        return {id: Live(from_micros(run_at), *rest) for id, run_at, *rest in rows}

    def asked(self) -> dict[int, tuple[str, datetime]]:
        """Return the task of each job, and when it was enqueued, by id."""
        rows = self._look("SELECT id, task, enqueued_at FROM mutirao_job ORDER BY id")
        return {id: (task, from_micros(at)) for id, task, at in rows}

    def attempts(self) -> dict[int, list[tuple[int, OutcomeKind]]]:
        """Return the runs that have ended of each job, with their outcomes."""
        found = defaultdict[int, list[tuple[int, OutcomeKind]]](list)
        for job, run, outcome in self._look("SELECT job, run, outcome FROM mutirao_attempt"):
            found[job].append((run, OutcomeKind(outcome)))
        return found

    def _look(self, sql: str) -> list[Any]:
        return self._runner.alone_sync(lambda conn: list(conn.exec_driver_sql(sql)))


class _OneThread(InCallersThread):
    """Keeps two connections: to borrow them for each call takes a quarter of a fleet's time."""

    def __init__(self, engines: Engines) -> None:
        super().__init__(engines)
        self._together = engines.sync().connect()
        self._alone = engines.sync(alone=True).connect()

    def run_sync(self, body: Body[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        with translate_errors(), self._together.begin():
            return body(self._together, *args, **kwargs)

    def alone_sync(self, body: Any, /, *args: Any, **kwargs: Any) -> Any:
        if isinstance(body, Generator):
            body, args, kwargs = kinds.through, (body,), {}
        with translate_errors():
            return body(self._alone, *args, **kwargs)
