"""`python -m tests.faults.hammer.lanes`: how often InnoDB breaks a deadlock under usual load.

Two workers do 100,000 jobs in fifty lanes on MariaDB, or MySQL (real-mysql), half of them within
limits, some with keys, while callers enqueue more. Unlike the hammer it gives no orders, and keys
are many. Exit status 0 if deadlocks are as rare as promised, and no caller and no handler met one.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from random import Random
from time import monotonic, sleep
from typing import Literal

from sqlalchemy import Connection

from mutirao import Mutirao
from mutirao.sql.schema.tables import attempt, worker
from tests.faults.hammer import audit
from tests.faults.hammer.crew import HammerCrew
from tests.faults.hammer.deadlocks import described
from tests.faults.hammer.lanes_app import any_job, first_jobs
from tests.faults.hammer.plan import Plan
from tests.faults.hammer.stage import CALLER, WORKER, Stage, staged
from tests.faults.hammer.tally import Tally
from tests.faults.kit.crew import at_work
from tests.faults.kit.program import end_with, parser_of, verdict
from tests.faults.kit.reading import Reader, count_of

CALLERS = 2
LOOK = 1.0  # seconds between two looks at the workers


@dataclass(frozen=True, kw_only=True)
class Load:
    """What is to happen.

    Parameters:
        jobs: how many are there before the workers start.
        seconds: how long the workers have.
        workers: processes.
        seed: of what is enqueued.
        database: `mysql` is a MariaDB, `real-mysql` a MySQL.
    """

    jobs: int = 100_000
    seconds: float = 120.0
    workers: int = 2
    seed: int = 1
    database: Literal["mysql", "real-mysql"] = "mysql"


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came of it; `who` tells which statements met in each deadlock."""

    transactions: int
    deadlocks: int
    done: int
    tally: Tally
    wrong: list[str]
    who: list[str]

    def lines(self) -> Iterator[str]:
        """Yield it as sentences."""
        yield f"{self.done:,} attempts, {self.transactions:,} transactions"
        yield f"{self.deadlocks} deadlocks"
        for (who, what), line in self.tally.lines.items():
            yield f"{who}, {what}: {line.made:,} calls, failed: {dict(line.failed)}"
        yield from self.who

    def problems(self) -> list[str]:
        """Return what is not as promised."""
        failed = sum(line.failed.total() for line in self.tally.lines.values())
        found = [*self.wrong]
        if failed:
            found.append(f"calls that failed: {failed}")
        if self.deadlocks > max(1, self.transactions / 10_000):
            found.append(f"{self.deadlocks} deadlocks are more than one in 10,000 transactions")
        return found


def run(load: Load) -> Outcome:
    """Fill a database of a server of our own, let workers and callers loose, and look."""
    plan = Plan(database=load.database)
    with (
        tempfile.TemporaryDirectory(prefix="mutirao-lanes-") as name,
        staged(plan, Path(name)) as stage,
        closing(Reader(stage.own_url)) as reader,
    ):
        _fill(stage, load)
        crew = HammerCrew(stage.url(WORKER), Path(name), "lanes_app")
        with at_work(crew, load.workers) as workers:
            _wait_for(load.workers, reader, plan.patience)
            before, tally = stage.counts(), Tally()
            _strike(stage, load, workers, tally)
            after = stage.counts()
            workers.stop()
        with reader.snapshot() as connection:
            done, wrong = _look(connection)
        return Outcome(
            transactions=after[0] - before[0],
            deadlocks=after[1] - before[1],
            done=done,
            tally=tally,
            wrong=[*wrong, *workers.problems],
            who=list(described(stage.deadlocks())),
        )


def _wait_for(workers: int, reader: Reader, patience: float) -> None:
    """Wait until so many have signed on."""
    deadline, signed_on = monotonic() + patience, 0
    while signed_on < workers:
        if monotonic() > deadline:
            raise TimeoutError(f"{signed_on} of {workers} workers started within {patience} s")
        sleep(LOOK / 10)
        with reader.snapshot() as connection:
            signed_on = count_of(connection, worker)


def _fill(stage: Stage, load: Load) -> None:
    app, dice = Mutirao(stage.url(CALLER)), Random(load.seed)
    app.enqueue_many(first_jobs(dice, load.jobs))
    app.close()


def _strike(stage: Stage, load: Load, workers: HammerCrew, tally: Tally) -> None:
    until = monotonic() + load.seconds
    with ThreadPoolExecutor(CALLERS) as callers:
        calls = [
            callers.submit(_call, stage.url(CALLER), Random(f"{load.seed} {n}"), until, tally)
            for n in range(CALLERS)
        ]
        while not all(call.done() for call in calls):
            workers.replace_ended()
            sleep(min(LOOK, max(0.05, until - monotonic())))
        for call in calls:
            call.result()


def _call(url: str, dice: Random, until: float, tally: Tally) -> None:
    app = Mutirao(url)
    while monotonic() < until:
        with tally.counting(CALLER, "one job"):
            app.submit(any_job(dice))
        with tally.counting(CALLER, "twenty in a call"):
            app.enqueue_many([any_job(dice) for _ in range(20)])
    app.close()


def _look(connection: Connection) -> tuple[int, list[str]]:
    done = count_of(connection, attempt)
    errors = audit.errors_of_databases(connection)
    wrong = [f"job {job} ended with: {text}" for (job, _), text in errors.items()]
    return done, [*wrong, *audit.whole(connection)]


def main() -> int:
    """Read the options, run, print what came of it."""
    options = vars(parser_of("tests.faults.hammer.lanes", Load).parse_args())
    outcome = run(Load(**options))
    return verdict(outcome.lines(), outcome.problems())


if __name__ == "__main__":
    end_with(main)
