"""The part of a store for jobs that a broker carries, as a protocol; see `model.brokers.doorbell`.

The rest of the store, and the meaning of `now`, is in `mutirao.ports.store`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from mutirao.model.brokers.doorbell import Doorbell
    from mutirao.model.jobs.job import Claim, Lane


class CarriedApi(Protocol):
    """The doorbells of a store; part of `Store`.

    A job whose doorbell was rung is `ready` to people, and no `claim` takes it. Other calls treat
    it as the waiting job that it is.
    """

    async def ring(
        self, lanes: Sequence[Lane], limit: int, *, now: datetime | None = None
    ) -> list[Doorbell]:
        """Ring the doorbells of up to `limit` due jobs, and return these, for a broker to carry.

        They are found as by `claim`: by what they are, not by how far a reader has come. Of calls
        at the same time, each takes others. Jobs of queues that are paused are left. The run does
        not change, nor does an attempt begin.
        """
        ...

    async def unring(self, doorbells: Collection[Doorbell]) -> set[int]:
        """Take back doorbells that no broker has taken; return the ids of the jobs.

        Their jobs wait in their lanes again, with the same run. Stale ones are left out.
        """
        ...

    async def answer(
        self, worker: int, doorbells: Collection[Doorbell], *, now: datetime | None = None
    ) -> list[Claim]:
        """Claim the jobs of doorbells for a worker, as `claim` does, and return the claims.

        Of each that still waits with that run and is due. Others are stale: claimed, ended, changed
        or rung with another run since; nothing happens to them. So of several who have the same
        doorbell one gets the job. Limits hold: what they have no room for is parked, or waits in
        its lane to be rung again.

        Raises:
            WorkerGone: the worker is not registered (any more); nothing was claimed.
        """
        ...

    async def recall(
        self,
        queues: Collection[str] | None,
        grace: float,
        limit: int,
        *,
        reached: datetime | None = None,
        now: datetime | None = None,
    ) -> list[int]:
        """Take back doorbells that nobody has answered, with the next run; return the ids.

        Of up to `limit` jobs of these queues, all if None, that were rung more than `grace` seconds
        ago. They wait in their lanes again; a worker that gets the old doorbell later finds it
        stale.

        Parameters:
            reached: when a doorbell was rung that a worker has answered by now: `grace` is counted
                back from there, for a broker that keeps the order and has many to carry.
        """
        ...
