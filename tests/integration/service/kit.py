"""What the tests of services share: what the tables say in the end, and programs to run."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import NullPool, and_, create_engine, func, make_url, select

from mutirao.model.jobs.job import FINAL_OUTCOMES, UNCOUNTED_OUTCOMES
from mutirao.sql.schema.tables import attempt, job, live, worker
from tests.support.waiting import until, wait_until

ROOT = Path(__file__).parents[3]
PROGRAMS = "tests.integration.service.programs"
PATIENCE = 600.0  # seconds; 50 forks that import everything took 60 s at a load of 20
QUICK = {"heartbeat": 0.5, "expiry": 3.0}  # as the program `works` has them


class Tables:
    """The tables of the database at `url`, read on a connection of its own each time."""

    def __init__(self, url: str) -> None:
        self._engine = create_engine(url, poolclass=NullPool)

    def rows(self, statement: Any) -> list[Any]:
        """Return the rows of a statement."""
        with self._engine.connect() as connection:
            return list(connection.execute(statement))

    def number_live(self) -> int:
        """Count the jobs that are not finished."""
        return int(self.rows(select(func.count()).select_from(live))[0][0])

    def number_held(self) -> int:
        """Count the jobs that some worker has."""
        held = select(func.count()).where(live.c.worker.is_not(None))
        return int(self.rows(held)[0][0])

    def number_holding(self) -> int:
        """Count the workers that have jobs."""
        return len(self.rows(select(live.c.worker).where(live.c.worker.is_not(None)).distinct()))

    def number_finished(self) -> int:
        """Count the final outcomes in history."""
        return len(self.rows(select(attempt.c.job).where(_among(FINAL_OUTCOMES))))

    def endings(self) -> dict[int, int]:
        """Return how many final outcomes history has of each job."""
        final = and_(attempt.c.job == job.c.id, _among(FINAL_OUTCOMES))
        counted = select(job.c.id, func.count(attempt.c.job)).outerjoin(attempt, final)
        return {row[0]: row[1] for row in self.rows(counted.group_by(job.c.id))}

    def outcomes(self) -> set[str]:
        """Return every kind of outcome in history."""
        return {row[0] for row in self.rows(select(attempt.c.outcome).distinct())}

    def workers(self) -> set[int]:
        """Return the ids of the registered workers."""
        return {row[0] for row in self.rows(select(worker.c.id))}

    def rows_of_workers(self) -> dict[int, object]:
        """Return when each registered worker has last beaten."""
        return dict(self.rows(select(worker.c.id, worker.c.beat_at)))

    def workers_of_attempts(self) -> set[int]:
        """Return the ids of the workers that have finished anything."""
        counted = ~_among(UNCOUNTED_OUTCOMES)
        return {row[0] for row in self.rows(select(attempt.c.worker).where(counted).distinct())}


def _among(kinds: Any) -> Any:
    return attempt.c.outcome.in_([str(kind) for kind in kinds])


async def all_finished(tables: Tables, number: int, *, deadline: float = 100.0) -> None:
    """Wait until so many jobs have ended; then each has one ending, and none is left."""
    await until(lambda: tables.number_finished() >= number, deadline=deadline)
    _each_ended_once(tables, number)


def wait_for_all(tables: Tables, number: int, *, deadline: float = 100.0) -> None:
    """As `all_finished`, in a thread."""
    wait_until(lambda: tables.number_finished() >= number, deadline=deadline)
    _each_ended_once(tables, number)


def _each_ended_once(tables: Tables, number: int) -> None:
    endings = tables.endings()
    assert len(endings) == number
    assert set(endings.values()) == {1}
    assert tables.number_live() == 0


@contextmanager
def program(name: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run one of the programs beside the tests; whatever happens, it does not stay."""
    process = subprocess.Popen(
        [sys.executable, "-m", f"{PROGRAMS}.{name}", *arguments],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": f"{ROOT}/src:{ROOT}"},
    )
    try:
        yield process
    finally:
        process.kill()
        sys.stdout.write("\n".join(process.communicate()))  # shown with a test that fails


def ran(name: str, *arguments: str) -> str:
    """Run a program to its end, which must be a good one; return what it printed."""
    with program(name, *arguments) as process:
        output, errors = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, f"{output}\n{errors}"
        assert "Traceback" not in errors, errors
    return output


def line(process: subprocess.Popen[str]) -> str:
    """Return the next line a program prints, or fail with its errors."""
    assert process.stdout is not None
    text = process.stdout.readline()
    if not text:
        _, errors = process.communicate()
        raise AssertionError(f"the program ended with {process.returncode}:\n{errors}")
    return text.strip()


def suspended(pid: int, url: str) -> bool:
    """Suspend a process, unless that is in the midst of writing to an SQLite file.

    Such a file belongs to one writer at a time, and nothing but its end takes it away from it.
    """
    os.kill(pid, signal.SIGSTOP)
    os.waitid(os.P_PID, pid, os.WSTOPPED)  # until then it may still begin to write
    if not url.startswith("sqlite"):
        return True
    with closing(sqlite3.connect(make_url(url).database or "", timeout=0.1)) as file:
        try:
            file.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            os.kill(pid, signal.SIGCONT)
            return False
    return True
