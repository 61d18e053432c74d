"""`schedules`: how fast many that are due at once tick, and what many cost that are not."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from time import perf_counter
from typing import Any

from sqlalchemy import Connection, delete, insert, select

from benchmarks.crew import Crew
from benchmarks.figures import Figures
from benchmarks.ground import Ground, ground
from benchmarks.load import PREFIX, Load
from mutirao.sql.schema import tables

DUE = (1_000, 5_000)
WORKERS = (1, 3)
DAY = 86_400.0
_MODEL = f"{PREFIX}schedule"
_AT_ONCE = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticked:
    """How fast schedules ticked that were due at once, and what others cost that rested.

    `ticks` has one row for each number of schedules and of workers: both, and the ticks a second,
    from the start of the workers until each tick's job has run. `alone` and `beside` are statements
    a minute of an idle worker, without schedules and with `resting` ones that are due tomorrow.
    """

    ticks: tuple[tuple[int, int, float], ...]
    resting: int
    alone: float
    beside: float

    def figures(self) -> Figures:
        """Return them by name."""
        found: Figures = {
            f"{due} due at once, {workers} workers, ticks/s": rate
            for due, workers, rate in self.ticks
        }
        return found | {
            "idle without schedules, statements/min": self.alone,
            f"idle with {self.resting} at rest, statements/min": self.beside,
        }


async def schedules(
    url: str,
    *,
    due: Sequence[int] = DUE,
    workers: Sequence[int] = WORKERS,
    resting: int = 100_000,
    seconds: float = 30.0,
    settling: float = 5.0,
) -> Ticked:
    """Let schedules tick that are due at the same time; watch a worker beside others at rest.

    Parameters:
        url: a database that a benchmark may use, see `Ground.prepare`.
        due: how many schedules; each number is measured.
        workers: by how many, each a process; each number is measured.
        resting: how many schedules an idle worker has beside it.
        seconds: for how long it is watched, each time.
        settling: seconds before that, not counted.

    Raises:
        MutiraoError: the database is not ours to use, or some jobs were not done once.
    """
    async with ground(url) as place:
        try:
            rates = [
                (many, number, await _ticking(place, many, number))
                for many in due
                for number in workers
            ]
            await place.prepare()
            alone = await _idle(place, seconds, settling)
            await _write(place, resting, DAY)
            beside = await _idle(place, seconds, settling)
        finally:
            await place.change(_clear)
            await place.prepare()
    return Ticked(ticks=tuple(rates), resting=resting, alone=alone, beside=beside)


async def _ticking(place: Ground, many: int, workers: int) -> float:
    await place.prepare()
    await _write(place, many, -1.0)
    async with Crew(place.url, workers) as crew:
        started = perf_counter()
        await crew.start()
        await crew.until(many)
        took = crew.board.last - started
        await crew.stop()
    await place.expect(many)
    return many / took


async def _idle(place: Ground, seconds: float, settling: float) -> float:
    """Return the statements a minute of a worker that has nothing to do."""
    async with Crew(place.url) as crew:
        await place.fill(())
        await crew.start()
        await asyncio.sleep(settling)
        before, since = await crew.so_far(), perf_counter()
        await asyncio.sleep(seconds)
        after, passed = await crew.so_far(), perf_counter() - since
        await crew.stop()
    return (after.statements - before.statements) * 60 / passed


async def _write(place: Ground, many: int, ahead: float) -> None:
    """Write so many schedules, of one day each, whose first tick is `ahead` seconds from now.

    One is put as people do, the others are copies of its row: they would take minutes.
    """
    load = Load(place.url)
    await place.change(_clear)
    await load.app.schedules.aput(_MODEL, load.coroutine.job(), every=DAY)
    await load.app.aclose()
    await place.change(lambda conn: _copy(conn, many, ahead))
    await place.store.refresh_statistics()


def _copy(conn: Connection, many: int, ahead: float) -> None:
    [row] = conn.execute(select(tables.schedule).where(tables.schedule.c.name == _MODEL)).mappings()
    model: dict[str, Any] = {**row, "next_at": datetime.now(UTC) + timedelta(seconds=ahead)}
    conn.execute(delete(tables.schedule).where(tables.schedule.c.name == _MODEL))
    for start in range(0, many, _AT_ONCE):
        some = range(start, min(start + _AT_ONCE, many))
        conn.execute(insert(tables.schedule), [model | {"name": f"{_MODEL}{n}"} for n in some])


def _clear(conn: Connection) -> None:
    for table in (tables.tick, tables.schedule):
        column = table.c.schedule if table is tables.tick else table.c.name
        conn.execute(delete(table).where(column.startswith(_MODEL, autoescape=True)))
