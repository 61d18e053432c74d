"""Finds the row that makes every claim fail, and marks its job as dead.

A claim takes many jobs at once, so one row that cannot be read would hold up all of them. A worker
whose claims fail more than a few times, with an error that does not pass, claims due jobs in parts:
a part that fails is halved, until one row is left. Its job is marked dead if the claim of another
job succeeds at that time. If none succeeds, the reason may be in the database or in the code, and
the worker ends in the end, as `mutirao.engine.loops` describes. See ADR 80.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Collection, Sequence
from time import monotonic
from typing import Any

from mutirao.engine.calls import outcomes
from mutirao.engine.dispatch.dispatcher import Dispatcher
from mutirao.engine.worker_row import WorkerRow
from mutirao.errors import SchemaError, StoreGone, StoreUnavailable, WorkerGone
from mutirao.log import log
from mutirao.model.jobs.job import Claim, Lane
from mutirao.model.row_json import storable

MOST_FAILURES = 3  # failed claims before the row is searched for
REMEMBERED_FOR = 60.0  # seconds after which a failure does not count any more
MOST_CANDIDATES = 1_000  # jobs that are tried in one search
UNREADABLE = "UnreadableJob"  # the error_type of a job that was marked dead

Claiming = Callable[[Collection[int]], Awaitable[Sequence[Claim]]]


def passes(error: BaseException) -> bool:
    """Return whether an error cannot come from a row: it passes, or ends the worker at once."""
    return isinstance(error, StoreUnavailable | StoreGone | SchemaError | WorkerGone)


class UnreadableRowSearch:
    """Searches for unreadable rows on behalf of one worker.

    Parameters:
        row: the worker's.
        claim: claims these jobs and starts them; returns the claims.
        on_buried: called with a job that was marked dead, and the reason.
    """

    def __init__(
        self,
        row: WorkerRow,
        dispatcher: Dispatcher,
        claim: Claiming,
        on_buried: Callable[[int, str], Awaitable[object]] | None = None,
    ) -> None:
        self._row, self._store, self._dispatcher = row, row.store, dispatcher
        self._claim, self._on_buried = claim, on_buried
        self._failures = deque[float](maxlen=MOST_FAILURES)

    def met(self, error: BaseException) -> None:
        """Count a failed claim, unless its error cannot come from a row."""
        if not passes(error):
            self._failures.append(monotonic())

    @property
    def is_due(self) -> bool:
        """Whether enough claims have failed to search for the row."""
        full = len(self._failures) == MOST_FAILURES
        return full and monotonic() - self._failures[0] < REMEMBERED_FOR

    async def due(self, lanes: Sequence[Lane] | None) -> list[int]:
        """Return due jobs of these lanes; None: of all lanes, if their list is unreadable."""
        return await self._store.due(lanes, MOST_CANDIDATES)

    async def sift(self, found: Sequence[int], wanted: int) -> int:
        """Claim up to `wanted` of these jobs in parts; mark those dead that cannot be claimed.

        Returns how many were claimed.

        Raises:
            Exception: the error of a claim, if no other job can be claimed.
        """
        parts = deque(found[n : n + wanted] for n in range(0, len(found), wanted))
        suspects: dict[int, Exception] = {}
        taken = 0
        while parts and taken < wanted:
            part = parts.popleft()
            if rest := part[wanted - taken :]:
                parts.appendleft(rest)
                part = part[: wanted - taken]
            claimed = await self._try(part)
            if not isinstance(claimed, Exception):
                taken += claimed
            elif len(part) == 1:
                suspects[part[0]] = claimed
            else:
                half = len(part) // 2
                parts.extendleft((part[half:], part[:half]))
        await self._judge(suspects, taken)
        self._failures.clear()
        return taken

    async def _judge(self, suspects: dict[int, Exception], taken: int) -> None:
        """Mark those dead that fail again, although another job could be claimed."""
        for job, error in suspects.items():
            if not taken:
                raise error
            again = await self._try([job])
            if isinstance(again, Exception):
                await self._bury(job, again)

    async def _try(self, jobs: Sequence[int]) -> int | Exception:
        """Claim jobs; return how many were claimed, or the error, which may come from a row."""
        try:
            return len(await self._claim(jobs))
        except Exception as error:
            if passes(error):
                raise
            await self._let_go(jobs)
            return error

    async def _let_go(self, jobs: Sequence[int]) -> None:
        """Give back jobs whose claim was committed but had an unreadable answer."""
        known = self._dispatcher.holds()
        held = await self._store.held(self._row.id)
        if mine := [(id, run) for id, run in held if id in jobs and (id, run) not in known]:
            await self._store.release(mine)

    async def _bury(self, job: int, error: Exception) -> None:
        said = storable(outcomes.message(error))[:1_000]
        why = f"no worker can claim it: {type(error).__name__}: {said}"
        if await self._store.bury(job, UNREADABLE, why):
            fields: dict[str, Any] = {"job": job, "outcome": "dead"}
            log.error("job %s is dead, as %s", job, why, exc_info=error, extra=fields)
            if self._on_buried is not None:
                await self._on_buried(job, why)
