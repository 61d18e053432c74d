"""The part of a store that finds and buries a row that makes every claim fail, as a protocol.

The rest of the store, and the meaning of `now`, is in `mutirao.ports.store`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from mutirao.model.jobs.job import Claim, Lane


class SiftingApi(Protocol):
    """Claims jobs by their ids, and buries them; part of `Store`.

    `due` and `bury` read no part of a row that another program could have made unreadable.
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

        Only those that wait and are due; limits hold.

        Raises:
            WorkerGone: the worker is not registered (any more); nothing was claimed.
        """
        ...

    async def disown(self, jobs: Collection[int] | None) -> set[int]:
        """Delete attempts from history that no run of these live jobs made; None: of all live jobs.

        Such rows were written by hand, with the key of an attempt that is still to be written.
        Returns the jobs.
        """
        ...

    async def bury(
        self, job: int, error_type: str, error: str, *, now: datetime | None = None
    ) -> bool:
        """End a waiting job as dead, whatever its row contains; return whether it waited.

        The usual effects follow: for jobs of its key, steps behind it, and listeners for its end.
        """
        ...
