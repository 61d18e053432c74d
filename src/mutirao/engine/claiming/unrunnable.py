"""Returns claimed jobs that this worker cannot run, or not now, to the store."""

from collections.abc import Collection

from mutirao.engine.claiming.lost_claims import LostClaims
from mutirao.engine.dispatch.dispatcher import Dispatcher
from mutirao.engine.dispatch.executor import LOST_RUNS_OF_SUSPECT
from mutirao.engine.dispatch.noted_starts import counted, postponed
from mutirao.engine.worker_row import WorkerRow
from mutirao.log import log
from mutirao.model.jobs.job import Claim


class Unfit:
    """The release of claimed jobs that this worker cannot run, or not now.

    Parameters:
        row: the worker's.
        served: the names of the tasks that it has.
        left_to_others: names of tasks that it does not ask for, to which others are added.
    """

    def __init__(
        self,
        row: WorkerRow,
        dispatcher: Dispatcher,
        holdings: LostClaims,
        served: Collection[str],
        left_to_others: set[str],
    ) -> None:
        self._row, self._store, self._dispatcher = row, row.store, dispatcher
        self._holdings, self._served = holdings, served
        self._left_to_others = left_to_others

    async def release(self, claims: list[Claim]) -> list[Claim]:
        """Release the jobs that this worker cannot run, or not now; return the others."""
        foreign = [claim for claim in claims if claim.task not in self._served]
        if foreign:
            await self._give_back_foreign(foreign)
            claims = [claim for claim in claims if claim.task in self._served]
        claims = counted(claims)
        suspects = [claim for claim in claims if claim.lost >= LOST_RUNS_OF_SUSPECT]
        return await self._keep_one_suspect(claims, suspects) if suspects else claims

    async def _give_back_foreign(self, foreign: list[Claim]) -> None:
        """Release jobs of tasks that this worker does not have; other workers may have them."""
        new = {claim.task for claim in foreign} - self._left_to_others
        self._left_to_others |= new
        log.warning("no such task here: %s; left to other workers", ", ".join(sorted(new)))
        with self._holdings.unsure_unless_answered():
            await self._store.release([(claim.id, claim.run) for claim in foreign])

    async def _keep_one_suspect(self, claims: list[Claim], suspects: list[Claim]) -> list[Claim]:
        """Keep one of the jobs with which workers were lost; postpone the others.

        Only one of them causes the losses, and it must not take the others with it every time.
        """
        kept = 0 if self._dispatcher.has_suspect() else 1
        later = suspects[kept:]
        if later:
            with self._holdings.unsure_unless_answered():
                await self._store.settle(self._row.id, postponed(later))
        return [claim for claim in claims if claim not in later]
