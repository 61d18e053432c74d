"""The dead messages of a queue: looked at, returned, dropped."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from aiormq.abc import AbstractChannel, DeliveredMessage

from mutirao.errors import TransportError
from mutirao.model.message import DeadMessage
from mutirao.transports.rabbitmq import wire
from mutirao.transports.rabbitmq.links import CALL_LIMIT, Links, Parcel
from mutirao.transports.rabbitmq.tokens import order_to_start, put_token
from mutirao.transports.rabbitmq.topology import Topology

MOST_LOOKS, LOOK_EVERY = 200, 0.01  # seconds, until what was looked at is back

OpenChannel = Callable[[], AbstractAsyncContextManager[AbstractChannel]]


class Graveyard:
    """The dead of one queue. What is taken and not taken away is back when a method returns."""

    def __init__(self, links: Links, topology: Topology, queue: str) -> None:
        self._links, self._topology, self._queue = links, topology, queue

    async def look(self, most: int) -> list[DeadMessage]:
        """Return the oldest dead messages."""
        found: list[DeadMessage] = []
        async with self._hand() as hand:
            async for each in hand.take(most):
                properties = each.header.properties
                found.append(wire.dead_message(properties, each.body, self._queue))
        return found

    async def give_back(self, ids: Sequence[str] | None) -> int:
        """Publish dead messages to their queue, each confirmed before it is taken away."""
        number = 0
        async with self._hand() as hand:
            async for each in hand.choose(ids):
                await self._send_back(each)
                await hand.take_away(each)
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
        async with self._hand() as hand:
            async for each in hand.choose(ids):
                await hand.take_away(each)
                number += 1
        return number

    @asynccontextmanager
    async def _hand(self) -> AsyncIterator["_Hand"]:
        async with self._links.channel() as channel:
            hand = _Hand(channel, self._topology.dead(self._queue))
            yield hand
            await hand.give_back()


class _Hand:
    """What was taken of the dead, over one channel."""

    def __init__(self, channel: AbstractChannel, name: str) -> None:
        self._channel, self._name, self._held = channel, name, 0

    async def choose(self, ids: Sequence[str] | None) -> AsyncIterator[DeliveredMessage]:
        """Yield the dead messages with these ids, or all."""
        wanted = None if ids is None else set(ids)
        async for each in self.take(None):
            if wanted is None or wire.dead_id(each.header.properties) in wanted:
                yield each

    async def take(self, most: int | None) -> AsyncIterator[DeliveredMessage]:
        """Yield messages of the dead, no more than there were at the beginning."""
        there = await self._count()
        for _ in range(there if most is None else min(there, most)):
            message = await self._channel.basic_get(self._name, timeout=CALL_LIMIT)
            if message.delivery_tag is None:
                return
            self._held += 1
            yield message

    async def take_away(self, message: DeliveredMessage) -> None:
        """Delete a message that was taken."""
        if message.delivery_tag is not None:
            await self._channel.basic_ack(message.delivery_tag)
            self._held -= 1

    async def give_back(self) -> None:
        """Return the others, and wait a little until they are there: who looks next sees them.

        Closing the channel returns them, too, but some time after that; a look at once missed them.
        """
        if not self._held:
            return
        await self._channel.basic_nack(0, multiple=True, requeue=True)  # 0: all that are held
        for _ in range(MOST_LOOKS):
            if await self._count() >= self._held:
                return
            await asyncio.sleep(LOOK_EVERY)

    async def _count(self) -> int:
        declaring = self._channel.queue_declare(self._name, passive=True, timeout=CALL_LIMIT)
        return (await declaring).message_count or 0
