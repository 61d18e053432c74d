"""Settles finished attempts, many in one statement.

While one batch is being written the next one gathers; when there is little to do, a finished job
waits a few milliseconds for company.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from time import monotonic
from typing import NamedTuple

from mutirao.engine.backoff import Backoff
from mutirao.errors import StoreUnavailable
from mutirao.job import Claim, NewJob, Outcome, OutcomeKind, Settlement, Wake
from mutirao.limit import Settled
from mutirao.ports import Store

log = logging.getLogger("mutirao")

UNWRITABLE = Outcome(
    OutcomeKind.RETRIED,
    after=60.0,
    error_type="SettlingFailed",
    error="the outcome could not be written; the worker's log says why",
)


class Finished(NamedTuple):
    """An attempt that has ended; the times are monotonic seconds."""

    claim: Claim
    outcome: Outcome
    started: float
    finished: float
    follow_up: NewJob | None
    linked: bool = False


class Completer:
    """Takes finished attempts and writes them, in the background."""

    def __init__(
        self,
        store: Store,
        worker: Callable[[], int],
        batch: int,
        linger: float,
        on_waiting: Callable[[Claim, Outcome], None],
        on_written: Callable[[], None],
        on_woken: Callable[[Wake], None] | None = None,
    ) -> None:
        """`on_woken`: jobs may be due in a lane, or in any, that waited for the end of others."""
        self._store, self._worker = store, worker
        self._batch, self._linger = batch, linger
        self._on_waiting, self._on_written = on_waiting, on_written
        self._on_woken = on_woken
        self._gathered: list[Finished] = []
        self._writing: list[Finished] = []
        self._something = asyncio.Event()
        self._closing = False

    @property
    def unsettled(self) -> int:
        """How many attempts have ended and are not written yet."""
        return len(self._gathered) + len(self._writing)

    def pending(self) -> set[tuple[int, int]]:
        """Return (id, run) of the jobs whose outcome is not written yet."""
        return {(f.claim.id, f.claim.run) for f in (*self._gathered, *self._writing)}

    def add(self, finished: Finished) -> None:
        """Take an attempt to be settled."""
        self._gathered.append(finished)
        if len(self._gathered) == 1:
            self._something.set()

    async def run(self) -> None:
        """Write until closed and empty."""
        while not (self._closing and not self._gathered):
            await self._something.wait()
            if len(self._gathered) < self._batch and not self._closing:
                await asyncio.sleep(self._linger)
            await self._flush()

    def tell_woken(self, woken: Iterable[Wake]) -> None:
        """Say that blocked jobs came back to these lanes."""
        if self._on_woken is not None:
            for wake in woken:
                self._on_woken(wake)

    def close(self) -> None:
        """Let `run` end when everything is written."""
        self._closing = True
        self._something.set()

    async def _flush(self) -> None:
        self._writing = self._gathered[: self._batch]
        del self._gathered[: self._batch]
        if not self._gathered and not self._closing:
            self._something.clear()
        if self._writing:
            await self._settle(self._writing)
            self._writing = []
            self._on_written()

    async def _settle(self, batch: list[Finished]) -> None:
        backoff, unsure = Backoff(), False
        while True:
            try:
                self._tell(batch, await self._write(batch), unsure)
                if backoff.reset():
                    log.warning("the database is back; %s jobs settled", len(batch))
                return
            except StoreUnavailable as gone:
                # The commit may have happened before the connection broke; then the next try
                # finds these runs stale, and that is no loss.
                unsure = True
                wait = backoff.next()
                log.warning("cannot settle %s jobs: %s; again in %.1f s", len(batch), gone, wait)
                await asyncio.sleep(wait)
            except Exception:
                if batch[0].outcome is UNWRITABLE:
                    raise  # the worker ends, and the job is rescued
                log.exception("settling %s jobs failed", len(batch))
                await self._settle_apart(batch)
                return

    async def _write(self, batch: list[Finished]) -> set[int]:
        now = monotonic()
        return await self._store.settle(
            self._worker(),
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

    async def _settle_apart(self, batch: list[Finished]) -> None:
        """Keep one settlement that the store refuses from holding up its neighbours."""
        if len(batch) > 1:
            for each in batch:
                await self._settle([each])
            return
        await self._settle([batch[0]._replace(outcome=UNWRITABLE, follow_up=None)])

    def _tell(self, batch: list[Finished], settled: set[int], unsure: bool = False) -> None:
        if any(each.linked and each.outcome.kind.final for each in batch):
            self.tell_woken([Wake()])  # in which lanes is not known
        if isinstance(settled, Settled):
            self.tell_woken(settled.woken)
        for claim, outcome, *_ in batch:
            if claim.id in settled or unsure:
                if not outcome.kind.final:
                    self._on_waiting(claim, outcome)
            else:
                log.warning(
                    "job %s was taken from this worker; its outcome %s is dropped",
                    claim.id,
                    outcome.kind,
                    extra={"job": claim.id, "task": claim.task, "run": claim.run},
                )
