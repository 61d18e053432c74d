"""Writes the progress that handlers report, in batches, about once a second.

Handlers report as often as they like, from any thread; only the last report of an attempt is kept.
"""

import asyncio
from contextlib import suppress
from threading import Lock
from typing import NamedTuple

from mutirao.aio import wait_for
from mutirao.engine.loops import MAX_REST, LoopHealth
from mutirao.errors import StoreError, StoreRefused
from mutirao.log import log
from mutirao.model.jobs.job import Claim
from mutirao.model.jobs.records import Progress
from mutirao.model.row_json import storable
from mutirao.ports import Store

WRITE_INTERVAL = 1.0  # seconds between two writes
MAX_NOTE = 500  # characters
MAX_IDS_PER_LOG_LINE = 20


class Report(NamedTuple):
    """A handler's report: `done` units, of `of` in all."""

    done: float
    of: float | None
    note: str | None


def report_of(done: float, of: float | None, note: str | None) -> Report:
    """Return a report in a form that every database can store; long notes are cut."""
    # Cut first, so that a very long note costs nothing.
    return Report(done, of, note and storable(note[:MAX_NOTE])[:MAX_NOTE])


class ProgressWriter:
    """Holds the last reports of one worker's attempts. Costs nothing while there are none."""

    def __init__(self, store: Store, pace: float = WRITE_INTERVAL) -> None:
        self._store, self._pace = store, pace
        self._reports: dict[int, Progress] = {}
        self._lock = Lock()
        self._something: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def report(self, claim: Claim, done: float, of: float | None, note: str | None) -> None:
        """Record the progress of an attempt. May be called from any thread."""
        report = report_of(done, of, note)
        with self._lock:
            first = not self._reports
            self._reports[claim.id] = Progress(claim.id, claim.run, *report)
        if first and self._loop is not None and self._something is not None:
            with suppress(RuntimeError):  # the loop has ended, and a thread does not know it
                self._loop.call_soon_threadsafe(self._something.set)

    async def run(self, pulse: LoopHealth) -> None:
        """Write reports at once, and then at most once per `pace` seconds; forever."""
        self._loop, self._something = asyncio.get_running_loop(), asyncio.Event()
        self._something.set()  # earlier reports have not been written
        while True:
            pulse.turn()
            await wait_for(self._something, MAX_REST)
            # Clear it even if another call has written the reports already: a wait for an event
            # that is set lets no other task run.
            self._something.clear()
            await self.write()
            await asyncio.sleep(self._pace)

    async def write(self) -> None:
        """Write the reports since the last call."""
        with self._lock:
            reports, self._reports = self._reports, {}
        if reports:
            await self._write(list(reports.values()))

    async def _write(self, reports: list[Progress]) -> None:
        """Write what the database accepts; a refused report does not affect other attempts."""
        try:
            await self._store.report(reports)
        except StoreError as error:
            if isinstance(error, StoreRefused) and len(reports) > 1:
                half = len(reports) // 2
                await self._write(reports[:half])
                await self._write(reports[half:])
            else:
                jobs = ", ".join(str(each.job) for each in reports[:MAX_IDS_PER_LOG_LINE])
                log.warning("the progress of jobs %s was not written: %s", jobs, error)
        except Exception:  # noqa: BLE001 (logged; a handler's report must not end the loop)
            log.exception("the progress of %s jobs was not written", len(reports))
