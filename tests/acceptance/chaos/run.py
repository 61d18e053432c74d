"""One chaos run: jobs are enqueued, workers set to work and disturbed, and the tables audited."""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from sqlalchemy import Connection, Engine, NullPool, Table, create_engine, func, select
from sqlalchemy.exc import OperationalError

from mutirao import Mutirao
from mutirao.model.job import OutcomeKind
from mutirao.sql import migrations
from mutirao.sql.schema.tables import live
from tests.acceptance.chaos import app, told
from tests.acceptance.chaos.audit import audit
from tests.acceptance.chaos.crew import Crew, crew
from tests.acceptance.shared.timer import Timer
from tests.support.mariadb import MariadbServer
from tests.support.postgresql import PostgresServer
from tests.support.servers import PrivateServer

HEARTBEAT, EXPIRY = 0.5, 2.0  # seconds

Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is to happen. All times are seconds.

    Parameters:
        jobs: how many, those that are enqueued by others included.
        pause: the most that a job waits before it writes.
        kill_every: between two kills; 0 for none.
        freeze_every: between two workers suspended for longer than their expiry; 0 for none.
        restarts: crashes of the server, spread over the run.
        publications, subscriptions: how often something is published, and how many are told of it.
        deadline: when to give up.
    """

    database: Literal["postgresql", "mysql", "sqlite"] = "postgresql"
    jobs: int = 20_000
    workers: int = 4
    pause: float = 0.02
    kill_every: float = 2.0
    freeze_every: float = 5.0
    restarts: int = 2
    deadline: float = 300.0
    publications: int = 0
    subscriptions: int = 20

    @property
    def effects(self) -> int:
        """How many rows there are to be."""
        return self.jobs + self.publications * self.subscriptions

    def __post_init__(self) -> None:
        if self.database == "sqlite" and self.restarts:
            raise ValueError(f"SQLite has no server to crash; give restarts=0, not {self.restarts}")


@dataclass(frozen=True, kw_only=True)
class Report:
    """What happened, and what is not as promised; nothing if the promise held."""

    problems: list[str]
    seconds: float
    jobs: int
    kills: int
    freezes: int
    restarts: int
    outcomes: Counter[OutcomeKind]
    stale: int

    def lines(self) -> Iterator[str]:
        """Yield the figures, one a line."""
        yield f"{self.seconds:10.1f} seconds, {self.jobs / self.seconds:,.0f} jobs a second"
        yield f"{self.kills:10,} workers killed and replaced"
        yield f"{self.freezes:10,} workers suspended for longer than their expiry"
        yield f"{self.restarts:10,} crashes of the server"
        for outcome in OutcomeKind:
            yield f"{self.outcomes[outcome]:10,} attempts {outcome}"
        yield f"{self.stale:10,} stale runs rejected"


def run(plan: Plan, say: Say, logs: Path | None = None) -> Report:
    """Carry out a plan.

    `say` is called with lines that tell how far it is. What the workers say goes to files in the
    directory `logs`, or is thrown away at the end.
    """
    with tempfile.TemporaryDirectory(prefix="mutirao-chaos-") as name, _database(plan, name) as at:
        url, server = at
        engine = create_engine(url, poolclass=NullPool)
        _prepare(engine, url, plan)
        say(f"{plan.effects:,} effects, {plan.workers} workers, {plan.database}")
        with crew(url, logs or Path(name), plan.workers, HEARTBEAT, EXPIRY) as workers:
            chaos = Chaos(plan, engine, workers, server, say)
            chaos.endure()
            workers.stop()
        with engine.connect() as connection:
            findings = audit(connection, plan.jobs)
            untold = [*told.audit(connection, plan.publications, plan.subscriptions)]
        return Report(
            problems=[*findings.problems, *untold, *workers.problems],
            seconds=chaos.seconds,
            jobs=plan.effects,
            kills=workers.kills,
            freezes=workers.freezes,
            restarts=chaos.restarts,
            outcomes=findings.outcomes,
            stale=len(workers.rejected()),
        )


class Chaos:
    """What disturbs the workers until no job is left, or the deadline has passed."""

    def __init__(
        self, plan: Plan, engine: Engine, workers: Crew, server: PrivateServer | None, say: Say
    ) -> None:
        self._plan, self._engine, self._workers = plan, engine, workers
        self._server, self._say = server, say
        self._crash: Future[None] | None = None
        self._rows, self._unfinished = 0, plan.effects
        self._rows_at_kill = 0
        self.restarts = 0
        self.seconds = 0.0

    def endure(self) -> None:
        """Disturb them; return when all jobs are finished."""
        plan, workers = self._plan, self._workers
        kill, freeze, tell = (Timer(each) for each in (plan.kill_every, plan.freeze_every, 2.0))
        started = time.monotonic()
        with ThreadPoolExecutor(1) as helper:
            while self._unfinished and self.seconds < plan.deadline:
                time.sleep(0.1)
                self.seconds = time.monotonic() - started
                self._look()
                self._crash_when_due(helper)
                workers.replace_ended()
                if self._some_work_was_done() and kill.rang():
                    self._rows_at_kill = self._rows
                    workers.kill_oldest()
                if freeze.rang():
                    workers.freeze_one()
                workers.thaw(now=time.monotonic())
                if tell.rang():
                    self._tell()
        if self._crash is not None:
            self._crash.result()

    def _some_work_was_done(self) -> bool:
        """Tell whether it was, since the last kill: a slow machine starts workers slowly."""
        return self._rows - self._rows_at_kill >= self._plan.effects // 20

    def _look(self) -> None:
        try:
            with self._engine.connect() as connection:
                self._rows, self._unfinished = (
                    _count(connection, app.rows) + _count(connection, app.told),
                    _count(connection, live),
                )
        except OperationalError:
            return  # the server is away, as it shall be: what was counted last still stands

    def _crash_when_due(self, helper: ThreadPoolExecutor) -> None:
        """Crash the server when the next part of the jobs is done; others go on meanwhile."""
        plan = self._plan
        due = (self.restarts + 1) * plan.effects / (plan.restarts + 1)
        if self._server is not None and self.restarts < plan.restarts and self._rows >= due:
            if self._crash is not None:
                self._crash.result()
            self._crash = helper.submit(self._server.crash)
            self.restarts += 1

    def _tell(self) -> None:
        self._say(
            f"{self.seconds:6.1f} s: {self._rows:,} rows, {self._unfinished:,} jobs unfinished,"
            f" {self._workers.kills} kills, {self.restarts} crashes"
        )


def _count(connection: Connection, table: Table) -> int:
    return connection.execute(select(func.count()).select_from(table)).scalar_one()


def _prepare(engine: Engine, url: str, plan: Plan) -> None:
    migrations.upgrade(url)
    app.metadata.create_all(engine)
    with closing(Mutirao(url)) as application:
        application.enqueue_many(app.first_jobs(plan.jobs, plan.pause))
        told.publish(application, plan.publications, plan.subscriptions, plan.pause)


@contextmanager
def _database(plan: Plan, directory: str) -> Iterator[tuple[str, PrivateServer | None]]:
    """Lend the URL of an empty database, and its server, of default durability, if it has one."""
    if plan.database == "sqlite":
        yield f"sqlite:///{directory}/chaos.db", None
        return
    server = PostgresServer() if plan.database == "postgresql" else MariadbServer(settings={})
    with server:
        yield server.url(server.create_database()), server
