"""Announcements between workers: a fanout exchange with a queue for each worker.

Such a queue is exclusive to its connection and ends with it. Nothing of value is lost then:
announcements are repeated.
"""

import asyncio
from typing import Any
from uuid import uuid4

from aiormq.abc import AbstractChannel, DeliveredMessage
from pamqp.commands import Basic

from mutirao.errors import TransportError, TransportUnavailable
from mutirao.ports.arrivals import Arrivals
from mutirao.transports.rabbitmq.links import CALL_LIMIT, Links, Parcel
from mutirao.transports.rabbitmq.topology import Topology

MOST_KEPT = 1_000  # announcements that one worker has not heard yet


class RabbitAnnouncements:
    """See `ports.announcements.Announcements`."""

    def __init__(self, links: Links, topology: Topology, channel: AbstractChannel) -> None:
        self._links, self._exchange, self._channel = links, topology.workers, channel
        self._come: Arrivals[bytes] = Arrivals()

    async def begin(self) -> None:
        """Begin to listen."""
        self._channel.closing.add_done_callback(self._closed)
        self._channel.on_consumer_cancel_callbacks.add(self._cancelled)
        name = f"{self._exchange}.{uuid4().hex}"
        await self._channel.queue_declare(
            name, exclusive=True, auto_delete=True, arguments={"x-max-length": MOST_KEPT},
            timeout=CALL_LIMIT,
        )  # fmt: skip
        await self._channel.queue_bind(name, self._exchange, timeout=CALL_LIMIT)
        await self._channel.basic_consume(name, self._on_message, no_ack=True, timeout=CALL_LIMIT)

    async def receive(self, seconds: float) -> bytes | None:
        """Wait for an announcement; see `Announcements.receive`."""
        return await self._come.next_within(seconds)

    async def tell(self, body: bytes) -> None:
        """Send an announcement; see `Announcements.tell`."""
        properties = Basic.Properties(content_type="application/json")
        if error := await self._links.publish(Parcel(self._exchange, "", body, properties)):
            raise error

    async def _on_message(self, message: DeliveredMessage) -> None:
        self._come.put(message.body)

    async def _cancelled(self, _: Any) -> None:
        self._break(TransportUnavailable("the broker has ended the consumer of announcements"))

    def _closed(self, closing: "asyncio.Future[Any]") -> None:
        self._break(self._links.why_closed(closing))

    def _break(self, error: TransportError) -> None:
        self._come.broken = self._come.broken or error
        self._come.notify()
