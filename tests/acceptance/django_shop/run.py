"""One run: a server, the tables, orders, workers of which one is killed each second, a count."""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from sqlalchemy import Engine, NullPool, create_engine, func, select

from mutirao.model.jobs.job import OutcomeKind
from mutirao.sql.schema.tables import attempt, live
from tests.acceptance.django_shop.project import Shop
from tests.faults.kit.databases import changed, server_of
from tests.faults.kit.program import Say
from tests.faults.kit.timer import Timer

DRIVERS = {"postgresql": "postgresql+psycopg", "mysql": "mysql+mysqldb"}  # that Django prefers
REFUSED = 10  # one of so many orders
MOST_KILLS = 150  # a slow machine starts workers slowly: some work is done between two kills


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is to happen. All times are seconds.

    Parameters:
        database: `postgresql`, or `mysql`, which is a MariaDB.
        orders: how many, a tenth of which is refused after its job was enqueued.
        workers: how many run at a time, with four handlers each.
        kill_every: between two kills.
        deadline: when to give up.
    """

    database: Literal["postgresql", "mysql"] = "postgresql"
    orders: int = 20_000
    workers: int = 3
    kill_every: float = 1.0
    deadline: float = 1800.0

    @property
    def taken(self) -> int:
        """How many orders are to be paid."""
        return self.orders - self.orders // REFUSED


@dataclass
class Report:
    """What came of it; `counted` is what `counting.counted` says."""

    plan: Plan
    seconds: float = 0.0
    kills: int = 0
    counted: Mapping[str, Any] = field(default_factory=dict)

    def problems(self) -> Iterator[str]:
        """Yield what is not as promised."""
        taken = self.plan.taken
        for name in ("paid", "payments", "with_receipt"):
            if (found := self.counted[name]) != taken:
                yield f"{name} is {found}, where {taken} was expected"
        if (jobs := self.counted["jobs"]) != {"succeeded": 2 * taken}:
            yield f"jobs are {jobs}, where {2 * taken} were to succeed, and no other to be there"

    def lines(self) -> Iterator[str]:
        """Yield the figures."""
        found = self.counted
        yield f"{self.plan.orders:10,} orders, of which {self.plan.taken:,} were taken"
        yield f"{found['payments']:10,} payments, of {found['paid']:,} orders"
        yield f"{found['receipts']:10,} receipts, of {found['with_receipt']:,} orders"
        yield f"{self.kills:10,} workers killed in {self.seconds:.0f} s"
        for outcome, number in sorted(found["attempts"].items()):
            yield f"{number:10,} attempts {outcome}"


def run(plan: Plan, say: Say) -> Report:
    """Carry out a plan; `say` is called with lines that tell how far it is.

    Raises:
        CalledProcessError: a command of Django's failed, such as `check --deploy`.
        TimeoutError: the deadline has passed.
    """
    report = Report(plan)
    with (
        tempfile.TemporaryDirectory(prefix="mutirao-shop-") as place,
        server_of(plan.database) as server,
    ):
        url = server.url(server.create_database())
        shop = Shop(changed(url, drivername=DRIVERS[plan.database]), Path(place) / "log")
        shop.manage("migrate", "--run-syncdb", "--verbosity", "0")
        shop.manage("check", "--deploy", "--fail-level", "DEBUG", "--database", "default")
        engine = create_engine(url, poolclass=NullPool)
        with shop.taking(plan.orders, REFUSED) as taking, crew(shop, plan.workers) as workers:
            _kill_until_done(report, shop, workers, lambda: _progress(engine, taking), say)
        report.counted = shop.counted()
    return report


@contextmanager
def crew(shop: Shop, size: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Lend workers, the oldest one first; those that are there at the end are ended."""
    workers = [shop.worker() for _ in range(size)]
    try:
        yield workers
    finally:
        for each in workers:
            each.kill()
            each.wait()


def _kill_until_done(
    report: Report,
    shop: Shop,
    workers: list[subprocess.Popen[bytes]],
    progress: Callable[[], tuple[int, int]],
    say: Say,
) -> None:
    plan, killed_at, started = report.plan, 0, time.monotonic()
    kill, tell = Timer(plan.kill_every), Timer(5.0)
    enough = max(20, 2 * plan.taken // MOST_KILLS)
    left = 1
    while left:
        time.sleep(0.25)
        done, left = progress()
        report.seconds = time.monotonic() - started
        if report.seconds > plan.deadline:
            raise TimeoutError(f"{left} jobs are left after {plan.deadline} s")
        if done - killed_at >= enough and kill.rang():
            killed_at = done
            _kill_oldest(shop, workers)
            report.kills += 1
        if tell.rang():
            say(f"{report.seconds:6.1f} s: {done:,} jobs done, {left:,} left, {report.kills} kills")


def _kill_oldest(shop: Shop, workers: list[subprocess.Popen[bytes]]) -> None:
    worker = workers.pop(0)
    if worker.poll() is not None:
        raise RuntimeError(f"a worker ended by itself, with {worker.returncode}")
    worker.kill()
    worker.wait()
    workers.append(shop.worker())


def _progress(engine: Engine, taking: subprocess.Popen[bytes]) -> tuple[int, int]:
    """Return how many jobs have succeeded, and are left: at least one while orders are taken."""
    ends = taking.poll()  # before it is counted: what it wrote is there then
    if ends:
        raise RuntimeError(f"whoever takes orders ended with {ends}")
    succeeded = select(func.count()).where(attempt.c.outcome == OutcomeKind.SUCCEEDED)
    waiting = select(func.count()).select_from(live)
    with engine.connect() as connection:
        done, left = (connection.execute(each).scalar_one() for each in (succeeded, waiting))
    return done, left + (ends is None)
