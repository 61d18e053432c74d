"""The part of a store for endpoints and webhooks, as a protocol; see `model.webhooks.endpoints`.

The rest of the store, and the meaning of `now`, is in `mutirao.ports.store`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from mutirao.model.jobs.outcome import Settlement
    from mutirao.model.webhooks.breakers import BreakerName, BreakerTerms
    from mutirao.model.webhooks.endpoints import Endpoint, EndpointRecord, UnreadableEndpoint
    from mutirao.model.webhooks.webhook_attempts import Recorded, WebhookAttempt


class EndpointsApi(Protocol):
    """`store.endpoints`: endpoints, attempts and breakers.

    A delivery to an endpoint is a job of `WEBHOOK_TASK` in `WEBHOOK_QUEUE`, made by
    `subscriptions.fan_out` as for any subscription: one for each publication, however many of its
    topics match. Its arguments have `endpoint` and `host` besides those of each delivery. A held
    delivery waits like jobs behind any limit: `blocked`, and it costs nothing.
    """

    async def put(
        self, endpoint: Endpoint, *, keep_secret: bool = False, now: datetime | None = None
    ) -> None:
        """Create an endpoint, or change the one of that id; it is in force when this returns.

        An existing one stays paused, disabled or held. Its own limits are limits of the store.
        `keep_secret`: the existing one keeps its secrets, whatever `endpoint` has.

        Raises:
            InvalidEndpoint: there is none whose secret could be kept.
        """
        ...

    async def put_all(
        self,
        asked: Sequence[Endpoint],
        *,
        keep_secrets: Collection[str] = (),
        now: datetime | None = None,
    ) -> None:
        """Put each of several endpoints, with different ids: all in one transaction, or none.

        As by `put`. `keep_secrets`: the ids of those that keep their secrets. New ones
        without limits of their own cost a few statements for all of them.

        Raises:
            InvalidEndpoint: there is none whose secret could be kept; nothing was written.
        """
        ...

    async def rotate_secret(
        self, id: str, secret: str, *, keep: float, now: datetime | None = None
    ) -> bool:
        """Give an endpoint another secret; return whether it exists.

        The previous one signs as well for `keep` seconds more.

        Raises:
            InvalidEndpoint: it has a signer, and no secret.
        """
        ...

    async def remove(self, id: str, *, now: datetime | None = None) -> bool:
        """Remove an endpoint, its subscription and limits; return whether there was any of them.

        Some of them may have been deleted by hand.
        """
        ...

    async def pause(self, id: str, *, now: datetime | None = None) -> bool:
        """Hold deliveries to an endpoint, which are made as before; return whether it exists."""
        ...

    async def resume(self, id: str, *, now: datetime | None = None) -> bool:
        """Let deliveries to an endpoint out, in order; return whether it exists.

        Whatever held them is removed: a pause, its breaker, or that it was disabled. If its host
        does not answer, one goes out first, and the others when it has arrived.
        """
        ...

    async def listed(self) -> list[EndpointRecord]:
        """List the endpoints by id, without secrets."""
        ...

    async def to_send(self, ids: Collection[str]) -> list[Endpoint | UnreadableEndpoint]:
        """Return these endpoints with their secrets, for the worker that sends."""
        ...

    async def record(
        self,
        attempts: Sequence[WebhookAttempt],
        terms: BreakerTerms,
        done: Sequence[Settlement] = (),
        *,
        now: datetime | None = None,
    ) -> Recorded:
        """Record the results of attempts, and open and close breakers accordingly.

        `done` are settlements of jobs that have succeeded, for which nothing waits. They are
        written in the same commit if all attempts went well and no breaker is concerned, and
        returned as by `Store.settle`. Others are left to the caller.

        `mutirao.model.webhooks.breakers.judge` decides. The worker that opens a breaker also
        enqueues a job of `PROBE_TASK`, due at the time of the probe. An endpoint that answered 410,
        or has only failed for too long, is disabled: it gets no more deliveries, those it has are
        held, and a publication on `DISABLED_TOPIC` has the reason. Attempts are pruned with their
        jobs.
        """
        ...

    async def doubt(self, id: str) -> None:
        """Reduce the concurrent deliveries to a silent endpoint to the initial number.

        Running ones continue; each delivery that arrives admits one more again.
        """
        ...

    async def open_breakers(self, id: str) -> list[BreakerName]:
        """Return the breakers that hold deliveries to an endpoint: its own, its host's, or none."""
        ...

    async def probe(
        self, name: BreakerName, *, at_once: bool = False, now: datetime | None = None
    ) -> bool:
        """Let one delivery at a time through an open breaker, if its time has come.

        `at_once`: also before that time. Returns whether it lets one through now.
        """
        ...
