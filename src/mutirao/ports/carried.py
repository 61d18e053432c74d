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

        They are found as by `claim`: by their state, not by the position of a reader. Calls at the
        same time take different jobs. Jobs of paused queues are left out. The run does not change,
        and no attempt begins.
        """
        ...

    async def unring(self, doorbells: Collection[Doorbell]) -> set[int]:
        """Take back doorbells that no broker has accepted; return the ids of the jobs.

        Their jobs wait in their lanes again, with the same run. Stale ones are left out.
        """
        ...

    async def answer(
        self, worker: int, doorbells: Collection[Doorbell], *, now: datetime | None = None
    ) -> list[Claim]:
        """Claim the jobs of doorbells for a worker, as `claim` does, and return the claims.

        Only jobs that still wait with that run and are due are claimed. Other doorbells are stale:
        the job was claimed, ended, changed or rung with another run since, and nothing happens to
        it. So of several workers with the same doorbell one gets the job. Limits hold: a job
        without room is parked, or waits in its lane to be rung again.

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
        """Take back doorbells that no worker has answered, with the next run; return the ids.

        At most `limit` jobs of these queues (None: of all) that were rung more than `grace` seconds
        ago. They wait in their lanes again; a worker that gets the old doorbell later finds it
        stale.

        Parameters:
            reached: when a doorbell was rung that a worker has answered by now: `grace` is counted
                back from there, for a broker that keeps the order and has many to carry.
        """
        ...
