"""What is to come again later than its broker can hold it: it goes on as a job of the database."""

from collections.abc import Awaitable, Callable

from mutirao.engine.settling.one_by_one import Finished
from mutirao.errors import StoreError, StoreUnavailable
from mutirao.log import log
from mutirao.model.jobs.job import Claim, NewJob
from mutirao.model.jobs.states import OutcomeKind
from mutirao.tasks.job_messages import job_of

Write = Callable[[NewJob], Awaitable[object]]  # into the store; returns the job's id there


class Late:
    """Where the attempts of one queue go on that wait for too long.

    Parameters:
        longest: seconds from when it was received, after which something may come again.
        in_order: whether the queue keeps an order: then they stay in it, whose others wait.
        most_attempts: returns how many attempts a job may have.
        write: writes into the store.
        patience: seconds for which a database that is away is waited for.
    """

    def __init__(
        self,
        longest: float,
        in_order: bool,
        most_attempts: Callable[[Claim], int],
        write: Write,
        patience: float,
    ) -> None:
        self._longest, self._in_order, self._most_attempts = longest, in_order, most_attempts
        self._write, self._patience = write, patience
        self._said = set[str]()

    def is_too_long(self, after: float, held_for: float) -> bool:
        """Return whether what was received `held_for` seconds ago cannot wait that long."""
        return held_for + after > self._longest

    async def keep(self, ended: Finished, after: float, waited: float) -> bool:
        """Write a job that goes on in `after` seconds; return False if it stays with the broker.

        It has the attempts that are left. Commits in a transaction of its own.

        Parameters:
            waited: seconds for which the database has been tried.

        Raises:
            StoreUnavailable: try again.
        """
        claim = ended.claim
        if self._in_order:
            return self._stays(claim, after, "they would lose their place in the queue's order")
        used = claim.attempt - (ended.outcome.kind is not OutcomeKind.RETRIED)
        left = max(1, self._most_attempts(claim) - used)
        try:
            id = await self._write(job_of(claim, after, left))
        except StoreError as error:
            if isinstance(error, StoreUnavailable) and waited < self._patience:
                raise
            return self._stays(claim, after, f"the database does not take them: {error}")
        log.info("job %s (%s) goes on in %.0f s as job %s", claim.id, claim.task, after, id)
        return True

    def _stays(self, claim: Claim, after: float, why: str) -> bool:
        if why not in self._said:
            self._said.add(why)
            log.warning(
                "jobs of queue %s wait for longer than the %.0f s that its broker holds them, as"
                " job %s for %.0f s, and come again sooner: %s",
                *(claim.queue, self._longest, claim.id, after, why),
            )
        return False
