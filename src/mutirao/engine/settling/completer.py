"""Settles finished attempts in the database, many in one statement.

While one batch is written the next one gathers; when there is little to do, a finished job waits a
few milliseconds for others. A batch that the database aborts, perhaps because of a lock, is split
and settled one by one, so that the others do not wait for one row. A batch that it refuses is split
in the same way, until the refused row is found.
"""

import asyncio
from collections.abc import Callable, Iterable
from time import monotonic

from mutirao.engine.calls.attempt import Finished
from mutirao.engine.dispatch import attempt_log
from mutirao.engine.loops import MAX_REST, LoopHealth, LoopRetry
from mutirao.engine.measurement_listeners import Listeners
from mutirao.engine.settings import WorkerSettings
from mutirao.engine.settling.one_by_one import Fail, OneByOne, is_splittable
from mutirao.engine.worker_row import WorkerRow
from mutirao.errors import StoreBusy, StoreError, StoreRefused, StoreUnavailable
from mutirao.model.jobs.job import Claim, Wake
from mutirao.model.jobs.outcome import Outcome, Settlement
from mutirao.model.limits.claims_and_wakes import Settled


def _nobody(*_: object) -> None:
    """Do nothing: there is no listener."""


class Completer:
    """Collects finished attempts, and writes them in the background.

    Parameters:
        row: the worker's.
        fail: yields what may be written instead of an attempt whose outcome is refused.
        pulse: receives a sign of life from the loop.
        listeners: measure the worker; None: nothing does.

    Attributes:
        on_waiting: called when a job waits again.
        on_written: called when attempts were written.
        on_woken: called when jobs that waited for the end of others may be due, in a lane or in
            any.
    """

    on_waiting: Callable[[Claim, Outcome], object]
    on_written: Callable[[], object]
    on_woken: Callable[[Wake], object]

    def __init__(
        self,
        row: WorkerRow,
        settings: WorkerSettings,
        fail: Fail,
        pulse: LoopHealth,
        listeners: Listeners | None = None,
    ) -> None:
        self._listeners = listeners
        self._row, self._store, self._settings = row, row.store, settings
        self._pulse = pulse
        self.on_waiting = self.on_written = self.on_woken = _nobody
        self._gathered: list[Finished] = []
        self._writing: list[Finished] = []
        self._aside = OneByOne(row.store, settings, self._settle, fail, self._ended_aside)
        self._something = asyncio.Event()
        self._closing = False

    @property
    def unsettled(self) -> int:
        """The number of attempts that have ended and are not written yet."""
        return len(self._gathered) + len(self._writing) + len(self._aside)

    def pending(self) -> set[tuple[int, int]]:
        """Return (id, run) of the jobs whose outcome is not written yet."""
        finished = (*self._gathered, *self._writing, *self._aside)
        return {(f.claim.id, f.claim.run) for f in finished}

    def add(self, finished: Finished) -> None:
        """Add an attempt to be settled."""
        self._gathered.append(finished)
        if len(self._gathered) == 1:
            self._something.set()

    async def run(self) -> None:
        """Settle attempts until closed and empty."""
        try:
            while not (self._closing and not self._gathered):
                await self._gathering()
                await self._flush()
            await self._aside.idle()
        finally:
            self._aside.cancel()

    def announce_woken(self, woken: Iterable[Wake]) -> None:
        """Report that blocked jobs returned to these lanes."""
        for wake in woken:
            self.on_woken(wake)

    def note_own(self, finished: Finished, woken: Iterable[Wake]) -> None:
        """Take an attempt that its own transaction has settled; report the lanes that it woke."""
        if self._listeners is not None:
            self._listeners.written([finished])
        self.announce_woken(woken)

    def close(self) -> None:
        """Make `run` end when everything is written."""
        self._closing = True
        self._something.set()

    async def _gathering(self) -> None:
        """Wait for something to write, and then briefly for more."""
        self._pulse.turn()
        if self._aside.failure is not None:
            raise self._aside.failure
        while not self._something.is_set():
            try:
                async with asyncio.timeout(MAX_REST):
                    await self._something.wait()
            except TimeoutError:
                self._pulse.turn()
        if len(self._gathered) < self._settings.batch and not self._closing:
            await asyncio.sleep(self._settings.linger)

    def _ended_aside(self) -> None:
        if self._aside.failure is not None:
            self._something.set()
        self.on_written()

    async def _flush(self) -> None:
        batch = self._settings.batch
        self._writing = self._gathered[:batch]
        del self._gathered[:batch]
        if not self._gathered and not self._closing:
            self._something.clear()
        if self._writing:
            await self._settle_or_put_aside(self._writing)
            self._writing = []
            self.on_written()

    async def _settle_or_put_aside(self, batch: list[Finished]) -> None:
        try:
            await self._settle(batch)
        except Exception as error:
            if not is_splittable(error):
                raise
            self._aside.take(batch, error)

    async def _settle(self, batch: list[Finished]) -> None:
        """Write a batch as a whole; wait while the database is away.

        Raises:
            StoreBusy: it waited for a lock, or for too long.
            StoreRefused: the database refused a value.
            Exception: any other error that does not pass by itself.
        """
        settings = self._settings
        number = len(batch)
        trouble = LoopRetry(
            f"cannot settle {number} jobs",
            f"{number} jobs settled",
            settings.longest_wait,
            settings.patience,
        )
        unsure = False
        while True:
            self._pulse.turn()
            try:
                self._announce(batch, await self._write(batch), unsure)
            except (StoreBusy, StoreRefused):
                raise
            except StoreError as error:
                # The commit may have happened before the connection broke; then the next try
                # finds these runs stale, which is harmless.
                unsure = unsure or isinstance(error, StoreUnavailable)
                await asyncio.sleep(trouble.met(error))
            else:
                trouble.over()
                return

    async def _write(self, batch: list[Finished]) -> set[int]:
        now = monotonic()
        settled = await self._store.settle(
            self._row.id,
            [
                Settlement(
                    f.claim.id,
                    f.claim.run,
                    f.outcome,
                    now - f.started,
                    now - f.finished,
                    f.follow_up,
                    f.claim.key is not None,
                    f.linked,
                )
                for f in batch
            ],
        )
        if self._listeners is not None:
            self._listeners.settled(len(batch), monotonic() - now)
        return settled

    def _announce(self, batch: list[Finished], settled: set[int], unsure: bool = False) -> None:
        if any(each.linked and each.outcome.kind.final for each in batch):
            self.announce_woken([Wake()])  # the lanes are not known
        if isinstance(settled, Settled):
            self.announce_woken(settled.woken)
        for claim, outcome, *_ in batch:
            if claim.id in settled or unsure:
                if not outcome.kind.final:
                    self.on_waiting(claim, outcome)
            else:
                attempt_log.dropped(claim, outcome)
        if self._listeners is not None:
            written = [each for each in batch if each.claim.id in settled or unsure]
            self._listeners.written(written)
            if dropped := len(batch) - len(written):
                self._listeners.fenced(dropped)
