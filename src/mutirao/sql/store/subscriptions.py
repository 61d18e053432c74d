"""Subscriptions in the tables, and deliveries to them: `mutirao.ports.subscriptions`."""

from __future__ import annotations

import logging
from datetime import datetime
from typing import TYPE_CHECKING

from mutirao.errors import InvalidSubscription, StoreBusy, StoreRefused
from mutirao.model.jobs.outcome import completion
from mutirao.sql import statements
from mutirao.sql.schema import tables
from mutirao.sql.statements import subscriptions, topics
from mutirao.sql.store.part_calls import DeclaredPart, change_limits, read, write
from mutirao.sql.store.settling import Settling

if TYPE_CHECKING:
    from mutirao.model.jobs.job import Job
    from mutirao.model.jobs.outcome import Settlement
    from mutirao.model.topics.subscriptions import Replay, Replayed, Subscription
    from mutirao.ports import Attempt

log = logging.getLogger("mutirao")
# Subscriptions of a publication in one transaction; or publications, in a replay. A thousand are
# one part.
SUBSCRIPTIONS_AT_ONCE = 1_024


class SqlSubscriptions(DeclaredPart):
    """`store.subscriptions`."""

    declared = tables.subscription
    put_all = change_limits(subscriptions.put)
    set_active = write(subscriptions.set_active)
    change = write(subscriptions.change)
    remove = change_limits(subscriptions.remove, frees=True)
    listed = read(subscriptions.listed)

    async def put(
        self,
        subscription: Subscription,
        *,
        worker: str | None = None,
        now: datetime | None = None,
    ) -> None:
        """Write a subscription."""
        await self.put_all([subscription], worker=worker, now=now)

    async def replay(self, asked: Replay, after: int) -> Replayed:
        """Make deliveries of earlier publications."""
        sender, most = self._sender, SUBSCRIPTIONS_AT_ONCE
        part = statements.replaying.Replaying(sender.dialect, sender.enqueue, asked, most)
        return await sender.patient.run(part.go_on, after)

    async def fan_out(self, publication: Job, attempt: Attempt, after: str | None) -> str | None:
        """Make deliveries, and complete the publication with the last ones."""
        try:
            last = await self._fan_out(publication, attempt, after)
        except (InvalidSubscription, StoreRefused):
            if not await self._disable_unfit(publication):
                raise
            last = await self._fan_out(publication, attempt, after)
        self._sender.announce(1)
        return last

    async def _disable_unfit(self, publication: Job) -> bool:
        """Disable subscriptions whose rows were spoilt by hand; return whether there were any."""
        sender, unfit = self._sender, statements.unfit_subscriptions.DisableUnfit
        part = unfit(sender.dialect, sender.enqueue, publication, None)
        found = await sender.patient.run(part.write)
        for id, reason in found.items():
            log.error(
                "subscription %s is disabled: %s. Then enable it (`mutirao subscriptions enable`);"
                " `mutirao replay --missing` delivers what it has missed",
                id,
                reason,
            )
        return bool(found)

    async def _fan_out(self, publication: Job, attempt: Attempt, after: str | None) -> str | None:
        done = completion(publication, attempt.started_ago())
        done_there, last = await self._fan_out_in_database(publication, done, after)
        if not done_there:
            last = await self._fan_out_in_parts(publication, done, after)
        if last is None:
            attempt.mark_settled()
        return last

    async def _fan_out_in_database(
        self, publication: Job, done: Settlement, after: str | None
    ) -> tuple[bool, str | None]:
        """Make the next deliveries by a function of the database; return whether it could."""
        dialect, first = self._sender.dialect, SUBSCRIPTIONS_AT_ONCE
        runner = self._sender.patient
        if not dialect.delivers or not topics.is_plain(publication, done):
            return False, None
        return await runner.insist(
            lambda: runner.alone(dialect.fan_out(publication, done, after, first))
        )

    async def _fan_out_in_parts(
        self, publication: Job, done: Settlement, after: str | None
    ) -> str | None:
        sender = self._sender
        finish = Settling(sender.dialect, sender.enqueue).finish_one
        part = topics.FanOut(sender.dialect, sender.enqueue, finish, SUBSCRIPTIONS_AT_ONCE)
        try:
            return await sender.patient.run(part.go_on, publication, done, after)
        except StoreBusy:
            # A subscription with an order is locked for long. The others need not wait for it, nor
            # for the next attempt.
            while after := await sender.patient.run(part.pass_by, publication, after):
                pass
            raise
