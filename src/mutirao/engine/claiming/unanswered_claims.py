"""Finds claims whose answer was lost: jobs that the tables assign to a worker that has no claim.

A claim may have been committed although its answer never came. It may also have been made under a
worker id that was gone by then, so the rescue of that worker could not see those jobs. No other
worker would release them while the worker lives.
"""

import asyncio
from collections.abc import Callable, Collection
from math import inf
from time import monotonic
from typing import NamedTuple

from mutirao.aio import wait_for
from mutirao.engine.dispatch.dispatcher import Dispatcher
from mutirao.engine.loops import MAX_REST, LoopHealth, LoopRetry
from mutirao.engine.worker_row import WorkerRow
from mutirao.errors import WorkerGone
from mutirao.log import log

# Wait at least so many times the duration of a query before the next one, but no longer than that:
# a server that was silent for some seconds made one query slow, and may claim jobs late.
MIN_WAIT_PER_QUERY_TIME, LONGEST_WAIT = 5, 10.0
# Seconds after a doubt at which the query is repeated: a statement that the network has delayed may
# reach the server, and claim jobs, long after its connection was given up.
REPEATED_AFTER = (*(5.0 * n for n in range(1, 14)), 600.0)

Runs = Collection[tuple[int, int]]  # of jobs: (id, run)


class Former(NamedTuple):
    """A former id, from before the worker was considered gone, and the attempts begun under it."""

    id: int
    begun: Runs


class _Doubting:
    """A context that requests a check if its block fails, unless nothing can have been claimed.

    It may be entered again, and is no generator: each claim enters it.
    """

    __slots__ = ("_doubt",)

    def __init__(self, doubt: Callable[[], None]) -> None:
        self._doubt = doubt

    def __enter__(self) -> None:
        """Begin the block."""

    def __exit__(self, _: object, error: BaseException | None, trace: object) -> None:
        """Request a check after an error."""
        if error is not None and not isinstance(error, WorkerGone):
            self._doubt()


class UnansweredClaims:
    """Finds and releases jobs that one worker holds in the tables without a claim in memory.

    Parameters:
        row: the worker's.
        between_claims: a lock that is free while no claim is running and all claimed jobs are
            known.
        longest: the longest wait between two tries, in seconds.
    """

    def __init__(
        self,
        row: WorkerRow,
        dispatcher: Dispatcher,
        between_claims: asyncio.Lock,
        longest: float,
    ) -> None:
        self._row, self._store, self._dispatcher = row, row.store, dispatcher
        self._between_claims, self._longest = between_claims, longest
        self._loop = asyncio.get_running_loop()
        self._something = asyncio.Event()
        self._doubting = _Doubting(self.doubt)
        self._unsure = False  # True if the answer to a claim or a release was lost
        self._looks: list[float] = []  # monotonic times at which to query again
        self._former: list[Former] = []

    def doubt(self) -> None:
        """Request a check of what is held. May be called from any thread."""
        self._unsure = True
        self._loop.call_soon_threadsafe(self._something.set)

    def reborn(self, former: int, begun: Runs) -> None:
        """Request a check of what a former id holds; `begun`: the attempts begun under that id."""
        self._former.append(Former(former, begun))
        self._something.set()

    def unsure_unless_answered(self) -> "_Doubting":
        """Request a check if a call that changes what is held fails without an answer."""
        return self._doubting

    async def run(self, pulse: LoopHealth) -> None:
        """Check when there is a doubt, forever; beside the claims, because it may take long."""
        trouble = LoopRetry("cannot query held jobs", "held jobs are known again", self._longest)
        while True:
            await self._wait(pulse)
            started = monotonic()
            try:
                await self._look()
                trouble.over()
            except Exception as error:  # noqa: BLE001 (raised if it does not pass)
                self._unsure = True
                longer = min(self._longest, MIN_WAIT_PER_QUERY_TIME * (monotonic() - started))
                await pulse.rest(max(longer, trouble.met(error)))

    async def _wait(self, pulse: LoopHealth) -> None:
        pulse.turn()
        while not (self._unsure or self._former):
            next_look = self._looks[0] - monotonic() if self._looks else inf
            if next_look <= 0:
                return
            await wait_for(self._something, min(next_look, MAX_REST))
            self._something.clear()
            pulse.turn()

    async def _look(self) -> None:
        """Release unknown jobs now and, because commits may still come, again later."""
        now = monotonic()
        if self._unsure:
            self._unsure, self._looks = False, [now + later for later in REPEATED_AFTER]
        asked_for = await self._give_back()
        soonest = monotonic() + min(LONGEST_WAIT, MIN_WAIT_PER_QUERY_TIME * asked_for)
        self._looks = sorted({max(at, soonest) for at in self._looks if at > now})
        while self._former:
            await self._release_former(self._former[-1])
            self._former.pop()

    async def _give_back(self) -> float:
        """Release unknown jobs; return the seconds of the query, without the wait for claims."""
        started = monotonic()
        held = await self._store.held(self._row.id)
        asked_for = monotonic() - started
        async with self._between_claims:  # a running claim's jobs are held, but not known yet
            known = self._dispatcher.holds()
        if unknown := [job for job in held if job not in known]:
            log.warning("giving back %s jobs whose claim was cut off", len(unknown))
            await self._store.release(unknown)
        return asked_for

    async def _release_former(self, former: Former) -> None:
        """Release the jobs held under a former id.

        An attempt that had begun is recorded as lost; the others cost no attempt.
        """
        held = await self._store.held(former.id)
        async with self._between_claims:
            left = set(held) - self._dispatcher.unsettled()
        if begun := sorted(left.intersection(former.begun)):
            log.warning("%s attempts begun by worker %s are lost", len(begun), former.id)
            await self._store.lose(begun)
        if unknown := sorted(left.difference(former.begun)):
            log.warning("giving back %s jobs that worker %s had claimed", len(unknown), former.id)
            await self._store.release(unknown)
