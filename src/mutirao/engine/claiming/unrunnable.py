"""Gives back claimed jobs that this worker cannot run, or cannot run now."""

from mutirao.engine.calls import outcomes
from mutirao.engine.claiming.unanswered_claims import UnansweredClaims
from mutirao.engine.dispatch.admission import ServedTasks, SuspectTurn
from mutirao.engine.dispatch.dispatcher import Dispatcher
from mutirao.engine.dispatch.executor import LOST_RUNS_OF_SUSPECT
from mutirao.engine.dispatch.noted_starts import counted
from mutirao.engine.worker_row import WorkerRow
from mutirao.model.jobs.job import Claim
from mutirao.model.jobs.outcome import Settlement


class Unfit:
    """Releases claimed jobs that this worker cannot run, or cannot run now.

    Parameters:
        row: the worker's.
        served: the tasks that it serves.
    """

    def __init__(
        self,
        row: WorkerRow,
        dispatcher: Dispatcher,
        unanswered: UnansweredClaims,
        served: ServedTasks,
    ) -> None:
        self._row, self._store, self._dispatcher = row, row.store, dispatcher
        self._unanswered, self._served = unanswered, served

    async def release(self, claims: list[Claim]) -> list[Claim]:
        """Release the jobs that this worker cannot run, or cannot run now; return the others."""
        foreign = [claim for claim in claims if claim.task not in self._served.names]
        if foreign:
            await self._give_back_foreign(foreign)
            claims = [claim for claim in claims if claim.task in self._served.names]
        claims = counted(claims)
        suspects = [claim for claim in claims if claim.lost >= LOST_RUNS_OF_SUSPECT]
        return await self._keep_one_suspect(claims, suspects) if suspects else claims

    async def _give_back_foreign(self, foreign: list[Claim]) -> None:
        """Release jobs of tasks that this worker does not serve; other workers may serve them."""
        self._served.leave(claim.task for claim in foreign)
        with self._unanswered.unsure_unless_answered():
            await self._store.release([(claim.id, claim.run) for claim in foreign])

    async def _keep_one_suspect(self, claims: list[Claim], suspects: list[Claim]) -> list[Claim]:
        """Keep one of the jobs with which workers were lost; postpone the others."""
        turn = SuspectTurn(self._dispatcher.has_suspect())
        later = [claim for claim in suspects if not turn.take()]
        if later:
            settlements = [
                Settlement(claim.id, claim.run, outcomes.postponed(turn.wait())) for claim in later
            ]
            with self._unanswered.unsure_unless_answered():
                await self._store.settle(self._row.id, settlements)
        return [claim for claim in claims if claim not in later]
