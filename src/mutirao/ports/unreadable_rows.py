"""The part of a store by which a row is found and buried of which every claim fails, as a protocol.

The rest of the store, and the meaning of `now`, is in `mutirao.ports.store`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from mutirao.model.jobs.job import Claim, Lane


class SiftingApi(Protocol):
    """The claiming of jobs by their ids, and their burial; part of `Store`.

    `due` and `bury` read nothing of a row that others could have written so that it cannot be read.
    """

    async def due(
        self, lanes: Sequence[Lane] | None, limit: int, *, now: datetime | None = None
    ) -> list[int]:
        """Return the ids of up to `limit` due jobs of these lanes, in order; None: of all lanes."""
        ...

    async def claim_these(
        self, worker: int, jobs: Collection[int], *, now: datetime | None = None
    ) -> list[Claim]:
        """Claim these jobs for a worker, as `claim` does, and return the claims.

        Of each that waits and is due; limits hold.

        Raises:
            WorkerGone: the worker is not registered (any more); nothing was claimed.
        """
        ...

    async def disown(self, jobs: Collection[int] | None) -> set[int]:
        """Delete from history what no run of these live jobs has made; None: of all live jobs.

        A person wrote it by hand, and it stands where a run that has not ended is to be written.
        Returns the jobs.
        """
        ...

    async def bury(
        self, job: int, error_type: str, error: str, *, now: datetime | None = None
    ) -> bool:
        """End a waiting job as dead, whatever its row says; return whether it waited.

        What its end means for others follows: those of its key, steps behind it, who waits for it.
        """
        ...
