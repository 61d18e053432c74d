"""The part of the SQL store for endpoints and webhooks: `mutirao.ports.webhooks_api`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from mutirao.sql import statements
from mutirao.sql.connections.runner import for_people
from mutirao.sql.store.locking import Applying

if TYPE_CHECKING:
    from mutirao.model.jobs.outcome import Settlement
    from mutirao.model.webhooks.breakers import BreakerName, BreakerTerms
    from mutirao.model.webhooks.endpoints import Endpoint, EndpointRecord, UnreadableEndpoint
    from mutirao.model.webhooks.webhook_attempts import Recorded, WebhookAttempt
    from mutirao.sql.dialects.base import Dialect
    from mutirao.sql.enqueue.intake import SqlIntake
    from mutirao.sql.store.locking import RowLocking


class SqlWebhooks(Applying):
    """The part of `SqlStore` that implements `mutirao.ports.webhooks_api`."""

    _locking: RowLocking
    _dialect: Dialect
    _intake: SqlIntake

    async def put_endpoint(
        self, endpoint: Endpoint, *, keep_secret: bool = False, now: datetime | None = None
    ) -> None:
        """Create an endpoint, or change the one of that id."""
        await self.put_endpoints([endpoint], keep_secrets=[endpoint.id] * keep_secret, now=now)

    async def put_endpoints(
        self,
        asked: Sequence[Endpoint],
        *,
        keep_secrets: Collection[str] = (),
        now: datetime | None = None,
    ) -> None:
        """Create endpoints, or change those of their ids."""
        await self._locking.limits(
            self._insistent, statements.endpoints.put, self._dialect, asked, keep_secrets, now
        )

    async def rotate_secret(
        self, id: str, secret: str, *, keep: float, now: datetime | None = None
    ) -> bool:
        """Give an endpoint another secret."""
        return await self._insistent.run(
            statements.endpoints.rotate, self._dialect, id, secret, keep, now
        )

    async def remove_endpoint(self, id: str, *, now: datetime | None = None) -> bool:
        """Remove an endpoint."""
        return await self._locking.limits(
            self._patient, statements.endpoints.remove, self._dialect, id, now
        )

    async def pause_endpoint(self, id: str, *, now: datetime | None = None) -> bool:
        """Hold deliveries to an endpoint."""
        return await self._locking.limits(
            self._insistent, statements.endpoints.pause, self._dialect, id, now
        )

    async def resume_endpoint(self, id: str, *, now: datetime | None = None) -> bool:
        """Release the deliveries held for an endpoint."""
        return await self._locking.limits(
            self._patient, statements.webhooks.resume, self._dialect, id, now
        )

    async def endpoints(self) -> list[EndpointRecord]:
        """List the endpoints."""
        return await self._runner.read(for_people(statements.endpoints.listed))

    async def endpoints_to_send(self, ids: Collection[str]) -> list[Endpoint | UnreadableEndpoint]:
        """Return endpoints with their secrets."""
        return await self._runner.read(statements.endpoints.read, ids)

    async def record_webhooks(
        self,
        attempts: Sequence[WebhookAttempt],
        terms: BreakerTerms,
        done: Sequence[Settlement] = (),
        *,
        now: datetime | None = None,
    ) -> Recorded:
        """Write the results of attempts; in a second transaction, open or close breakers."""
        from mutirao.model.webhooks.webhook_attempts import Recorded

        if all(each.ok for each in attempts):
            settled = await self._apply(self._rules.delivered, attempts, done, now)
            if settled is not None:
                return Recorded(False, settled)
        judged = await self._insistent.run(
            statements.webhooks.record, self._dialect, attempts, terms, now
        )
        if judged:
            enqueue = self._intake.enqueue
            await self._locking.limits(
                self._patient, statements.webhooks.act, self._dialect, enqueue, judged, terms, now
            )
        return Recorded(bool(judged), set())

    async def doubt_endpoint(self, id: str) -> None:
        """Limit an endpoint that is silent to few deliveries at once."""
        runner = self._insistent
        await runner.insist(lambda: runner.alone(statements.webhooks.doubt, id))

    async def open_breakers(self, endpoint: str) -> list[BreakerName]:
        """Return which breakers hold deliveries to an endpoint."""
        return await self._runner.alone(statements.webhooks.open_to, endpoint)

    async def probe_webhooks(
        self, name: BreakerName, *, at_once: bool = False, now: datetime | None = None
    ) -> bool:
        """Let one delivery at a time through an open breaker."""
        return await self._locking.limits(
            self._insistent, statements.webhooks.probe, self._dialect, name, at_once, now
        )
