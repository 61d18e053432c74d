"""The part of a store for topics and their subscriptions, as a protocol.

The meaning of `now` is in `mutirao.ports.store`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from mutirao.model.jobs.job import Attempt, Job
    from mutirao.model.topics.subscriptions import (
        Replay,
        Replayed,
        Subscription,
        SubscriptionRecord,
    )


class SubscriptionsApi(Protocol):
    """`store.subscriptions`: topics and their subscriptions; see `mutirao.model.topics.topics`.

    The job of a topic's task is a publication. A claim of a delivery has as arguments an object of
    `event`, the fields of `mutirao.model.topics.topics.Event`, and `payload`, the publication's
    arguments. A publication is not pruned while a delivery of it is kept. A redriven delivery is
    one again.
    """

    async def put(
        self,
        subscription: Subscription,
        *,
        worker: str | None = None,
        now: datetime | None = None,
    ) -> None:
        """Create a subscription, or replace the one of that id; a disabled one stays disabled.

        With `worker`, that worker declares one of its code: an existing one changes only if the
        declaration differs from the last one. It is in force for publications that are fanned out
        from now on.
        """
        ...

    async def put_all(
        self,
        asked: Sequence[Subscription],
        *,
        worker: str | None = None,
        now: datetime | None = None,
    ) -> None:
        """Put each of several subscriptions, with different ids: all in one transaction, or none.

        As by `put`. New ones, and those that stay as they are, cost a few statements
        for all of them.
        """
        ...

    async def set_active(self, id: str, active: bool, *, now: datetime | None = None) -> bool:
        """Enable or disable a subscription; return whether it exists.

        While it is disabled nothing is fanned out to it. Deliveries that it has are left alone.
        """
        ...

    async def change(self, id: str, new: Mapping[str, Any], *, now: datetime | None = None) -> bool:
        """Give a subscription new values, and leave all others; return whether it exists.

        `new`: some of topic, tenant, group, filter, order_by, when_dead, queue and priority, which
        must fit the other values: callers have checked that.
        """
        ...

    async def remove(self, id: str) -> bool:
        """Remove a subscription; return whether it existed. Its deliveries are left alone."""
        ...

    async def listed(self) -> list[SubscriptionRecord]:
        """List the subscriptions by id."""
        ...

    async def replay(self, asked: Replay, after: int) -> Replayed:
        """Make deliveries of the next publications after this id, in the order of their ids.

        These are publications that were delivered to subscriptions, and that this one receives by
        its topic, tenant, group and filter, paused or not. All of it is one commit; with `missing`
        existing deliveries are not made again. A publication that a worker is about to deliver is
        left to it.

        Raises:
            UnknownSubscription: there is none of that id.
            InvalidSubscription: it does not receive that topic, or cannot be read.
            InvalidArguments: a filter has to be checked, and a publication cannot be read.
        """
        ...

    async def fan_out(self, publication: Job, attempt: Attempt, after: str | None) -> str | None:
        """Make a job for each of the next subscriptions to a topic, in the order of their ids.

        Only subscriptions that are active, are for any tenant and group or the publication's, and
        whose filter the payload passes. First come all those with `order_by`, and missing
        deliveries to them of earlier publications that are due: so their jobs are made in the order
        of publications. `claim` does not return a job while an earlier one of its subscription and
        value is live, or is dead with `when_dead` `stop` and was not redriven.

        All of it is one commit. With the last subscriptions the publication is completed in the
        same commit, and `attempt` is informed. Otherwise returns the last subscription of this
        call, for the next call. With `after` None it continues where an earlier run has ended, if
        there was one: each subscription gets one job.

        Raises:
            StaleRun: another run has the publication; nothing was written.
            InvalidSubscription: a subscription in the database cannot be read.
            InvalidArguments: a filter has to be checked, and the payload cannot be read.
        """
        ...

    async def confirm_declared(
        self, names: Collection[str], worker: str, *, every: float, now: datetime | None = None
    ) -> None:
        """Record that a worker has subscriptions of these ids in its code.

        Only for those that were declared in code and whose last confirmation is older than `every`
        seconds. Those that another transaction has locked are skipped until the next call.
        """
        ...
