"""The dead messages of a queue: looked at, returned, dropped."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager

from aiormq.abc import AbstractChannel, DeliveredMessage

from mutirao.errors import TransportError
from mutirao.model.message import DeadMessage
from mutirao.transports.rabbitmq import wire
from mutirao.transports.rabbitmq.links import CALL_LIMIT, Links, Parcel
from mutirao.transports.rabbitmq.tokens import order_to_start, put_token
from mutirao.transports.rabbitmq.topology import Topology

OpenChannel = Callable[[], AbstractAsyncContextManager[AbstractChannel]]


class Graveyard:
    """The dead of one queue. What is taken and not acknowledged is back when the channel closes."""

    def __init__(self, links: Links, topology: Topology, queue: str) -> None:
        self._links, self._topology, self._queue = links, topology, queue

    async def look(self, most: int) -> list[DeadMessage]:
        """Return the oldest dead messages."""
        found: list[DeadMessage] = []
        async with self._links.channel() as channel:
            async for each in self._taken(channel, most):
                properties = each.header.properties
                found.append(wire.dead_message(properties, each.body, self._queue))
        return found

    async def give_back(self, ids: Sequence[str] | None) -> int:
        """Publish dead messages to their queue, each confirmed before it is taken away."""
        number = 0
        async with self._links.channel() as channel:
            async for each in self._chosen(channel, ids):
                await self._send_back(each)
                await _take_away(channel, each)
                number += 1
        return number

    async def _send_back(self, message: DeliveredMessage) -> None:
        properties = message.header.properties
        if schedule := (properties.headers or {}).get(wire.SCHEDULE):
            await put_token(self._links, self._topology, str(schedule), order_to_start())
            return
        returned = wire.returned_properties(properties)
        parcel = Parcel(self._topology.prefix, self._queue, message.body, returned)
        error: TransportError | None = await self._links.publish(parcel)
        if error is not None:
            raise error

    async def drop(self, ids: Sequence[str] | None) -> int:
        """Delete dead messages."""
        number = 0
        async with self._links.channel() as channel:
            async for each in self._chosen(channel, ids):
                await _take_away(channel, each)
                number += 1
        return number

    async def _chosen(
        self, channel: AbstractChannel, ids: Sequence[str] | None
    ) -> AsyncIterator[DeliveredMessage]:
        wanted = None if ids is None else set(ids)
        async for each in self._taken(channel, None):
            if wanted is None or wire.dead_id(each.header.properties) in wanted:
                yield each

    async def _taken(
        self, channel: AbstractChannel, most: int | None
    ) -> AsyncIterator[DeliveredMessage]:
        """Yield messages of the dead, no more than there were at the beginning."""
        name = self._topology.dead(self._queue)
        told = await channel.queue_declare(name, passive=True, timeout=CALL_LIMIT)
        there = told.message_count or 0
        for _ in range(there if most is None else min(there, most)):
            message = await channel.basic_get(name, timeout=CALL_LIMIT)
            if message.delivery_tag is None:
                return
            yield message


async def _take_away(channel: AbstractChannel, message: DeliveredMessage) -> None:
    tag = message.delivery_tag
    if tag is not None:
        await channel.basic_ack(tag)
