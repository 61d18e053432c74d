"""`command`: how fast `mutirao worker` is as a user starts it, its log in a file."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic

from sqlalchemy import Connection, func, select

from benchmarks.crew import PATIENCE, Crew
from benchmarks.figures import Figures
from benchmarks.ground import Ground, ground
from benchmarks.load import SERVED, Load
from mutirao.errors import MutiraoError
from mutirao.sql.schema import tables

WAYS: dict[str, tuple[str, ...]] = {
    "defaults": (),
    "--log-jobs all": ("--log-jobs", "all"),
    "--log-level warning": ("--log-level", "warning"),
}
LOOK = 0.1  # seconds between looks whether all is settled
ENDING = 30.0  # seconds that a worker may take to end


@dataclass(frozen=True, slots=True, kw_only=True)
class Commanded:
    """Jobs a second of the same jobs: by an embedded worker, and by the command in several ways.

    From the start of the first handler until the last outcome was written, by the database's clock:
    starting Python and connecting do not count. `lines` are those that were logged.
    """

    embedded: float
    rates: dict[str, float]
    lines: dict[str, int]

    def figures(self) -> Figures:
        """Return the rates, and what they are of the embedded one."""
        found: Figures = {"embedded, jobs/s": self.embedded}
        for name, rate in self.rates.items():
            found[f"mutirao worker, {name}, jobs/s"] = rate
            found[f"mutirao worker, {name}, of embedded"] = rate / self.embedded
            found[f"mutirao worker, {name}, lines logged"] = self.lines[name]
        return found


async def command(url: str, *, jobs: int = 100_000) -> Commanded:
    """Drain jobs that do nothing and have four arguments, by the command and by an embedded worker.

    Parameters:
        url: a database that a benchmark may use, see `Ground.prepare`.
        jobs: how many, each time.

    Raises:
        MutiraoError: the database is not ours to use, or some jobs were not done once.
    """
    rates, lines = dict[str, float](), dict[str, int]()
    async with ground(url) as place:
        await _fill(place, jobs)
        async with Crew(url) as crew:
            await crew.start()
            await crew.until(jobs)
            await crew.stop()
        embedded = await _rate(place, jobs)
        for name, options in WAYS.items():
            await place.prepare()
            await _fill(place, jobs)
            lines[name] = await _work(place, options)
            rates[name] = await _rate(place, jobs)
    return Commanded(embedded=embedded, rates=rates, lines=lines)


async def _fill(place: Ground, jobs: int) -> None:
    load = Load(place.url)
    job = load.called.job(order=7, email="ana@example.org", total=12.5, paid=True)
    await place.fill(job for _ in range(jobs))


async def _work(place: Ground, options: tuple[str, ...]) -> int:
    """Run the command until nothing is left; return how many lines it logged."""
    with TemporaryDirectory() as directory:
        log = Path(directory, "log")
        with _running(place.url, options, log) as worker:
            await _until_settled(place, worker, log)
            worker.send_signal(signal.SIGTERM)
            status = await asyncio.to_thread(worker.wait, ENDING)
        if status != 0:
            raise _ended(status, log)
        return _lines(log)


@contextmanager
def _running(url: str, options: tuple[str, ...], log: Path) -> Iterator["subprocess.Popen[bytes]"]:
    with log.open("wb") as output:
        worker = subprocess.Popen(
            [sys.executable, "-m", "mutirao", "worker", "benchmarks.serving:app", *options],
            stdout=output,
            stderr=output,
            env=os.environ | {SERVED: url},
        )
    try:
        yield worker
    finally:
        worker.kill()
        worker.wait()


def _lines(log: Path) -> int:
    return log.read_bytes().count(b"\n")


async def _until_settled(place: Ground, worker: "subprocess.Popen[bytes]", log: Path) -> None:
    until = monotonic() + PATIENCE
    while await place.ask(_unsettled):
        await asyncio.sleep(LOOK)
        if (status := worker.poll()) is not None:
            raise _ended(status, log)
        if monotonic() > until:
            raise MutiraoError(
                f"the worker had not done its jobs after {PATIENCE:.0f} seconds; give it fewer with"
                " --jobs"
            )


def _ended(status: int, log: Path) -> MutiraoError:
    return MutiraoError(
        f"the worker ended with status {status}; it said: {log.read_text()[-2000:]}"
    )


async def _rate(place: Ground, jobs: int) -> float:
    await place.expect(jobs)
    return jobs / await place.ask(_seconds)


def _unsettled(conn: Connection) -> bool:
    return conn.execute(select(tables.live.c.id).limit(1)).first() is not None


def _seconds(conn: Connection) -> float:
    """Return the time from the first start of a handler to the last write of an outcome."""
    times = select(func.min(tables.attempt.c.started_at), func.max(tables.attempt.c.finished_at))
    first, last = conn.execute(times).one()
    seconds: float = (last - first).total_seconds()
    return seconds
