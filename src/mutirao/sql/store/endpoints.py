"""Endpoints and webhooks in the tables: `mutirao.ports.endpoints`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from mutirao.model.webhooks.webhook_attempts import Recorded
from mutirao.sql.statements import endpoints, webhooks
from mutirao.sql.store.part_calls import StorePart, change_limits, read, single, write

if TYPE_CHECKING:
    from mutirao.model.jobs.outcome import Settlement
    from mutirao.model.webhooks.breakers import BreakerTerms
    from mutirao.model.webhooks.endpoints import Endpoint, UnreadableEndpoint
    from mutirao.model.webhooks.webhook_attempts import WebhookAttempt


class SqlEndpoints(StorePart):
    """`store.endpoints`."""

    put_all = change_limits(endpoints.put)
    rotate_secret = write(endpoints.rotate)
    remove = change_limits(endpoints.remove, patient=True)
    pause = change_limits(endpoints.pause)
    resume = change_limits(webhooks.resume, patient=True, frees=True)
    listed = read(endpoints.listed)
    open_breakers = single(webhooks.open_to)
    probe = change_limits(webhooks.probe, frees=True)

    async def put(
        self, endpoint: Endpoint, *, keep_secret: bool = False, now: datetime | None = None
    ) -> None:
        """Create an endpoint, or change the one of that id."""
        await self.put_all([endpoint], keep_secrets=[endpoint.id] * keep_secret, now=now)

    async def to_send(self, ids: Collection[str]) -> list[Endpoint | UnreadableEndpoint]:
        """Return endpoints with their secrets, as they are stored."""
        return await self._sender.runner.read(endpoints.read, ids)

    async def record(
        self,
        attempts: Sequence[WebhookAttempt],
        terms: BreakerTerms,
        done: Sequence[Settlement] = (),
        *,
        now: datetime | None = None,
    ) -> Recorded:
        """Write the results of attempts; in a second transaction, open or close breakers."""
        sender, dialect = self._sender, self._sender.dialect
        if all(each.ok for each in attempts):
            settled = await sender.apply(sender.rules.delivered, attempts, done, now)
            if settled is not None:
                return Recorded(False, settled)
        judged = await sender.insistent.run(webhooks.record, dialect, attempts, terms, now)
        if judged:
            patient, enqueue = sender.patient, sender.enqueue
            await sender.locking.limits(patient, webhooks.act, dialect, enqueue, judged, terms, now)
            sender.announce(len(attempts))
        return Recorded(bool(judged), set())

    async def doubt(self, id: str) -> None:
        """Limit an endpoint that is silent to few deliveries at once."""
        runner = self._sender.runner
        await self._sender.insistent.insist(lambda: runner.alone(webhooks.doubt, id))
