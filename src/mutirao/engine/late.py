"""What is to come again later than its broker can hold it: it goes on as a job of the database."""

from collections.abc import Awaitable, Callable

from mutirao.engine.aside import Finished
from mutirao.engine.logs import log
from mutirao.errors import StoreError, StoreUnavailable
from mutirao.model.job import Claim, NewJob
from mutirao.model.states import OutcomeKind
from mutirao.tasks.parcels import job_of

Write = Callable[[NewJob], Awaitable[object]]  # into the store; returns the job's id there


class Late:
    """Where the attempts of one queue go on that wait for too long.

    Parameters:
        longest: seconds from when it was received, after which something may come again.
        most_attempts: returns how many attempts a job may have.
        write: None if the worker serves no database.
    """

    def __init__(
        self, longest: float, most_attempts: Callable[[Claim], int], write: Write | None
    ) -> None:
        self._longest, self._most_attempts, self._write = longest, most_attempts, write
        self._said = False

    def is_too_long(self, after: float, held_for: float) -> bool:
        """Return whether what was received `held_for` seconds ago cannot wait that long."""
        return held_for + after > self._longest

    async def keep(self, ended: Finished, after: float) -> bool:
        """Write a job that goes on in `after` seconds; return False if it stays with the broker.

        It has the attempts that are left. Commits in a transaction of its own.

        Raises:
            StoreUnavailable: try again.
        """
        claim = ended.claim
        if self._write is None:
            if not self._said:
                self._said = True
                log.warning(
                    "jobs of queue %s wait for longer than its broker holds them, as job %s for"
                    " %.0f s, and come again sooner: have their workers serve the database, too",
                    *(claim.queue, claim.id, after),
                )
            return False
        used = claim.attempt - (ended.outcome.kind is not OutcomeKind.RETRIED)
        left = max(1, self._most_attempts(claim) - used)
        try:
            id = await self._write(job_of(claim, after, left))
        except StoreUnavailable:
            raise
        except StoreError as error:
            log.error("job %s stays with its broker, and comes sooner: %s", claim.id, error)
            return False
        log.info("job %s (%s) goes on in %.0f s as job %s", claim.id, claim.task, after, id)
        return True
