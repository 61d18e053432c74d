"""Reads, returns and drops the dead messages of a queue."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager

from mutirao.errors import TransportError
from mutirao.model.brokers.message import DeadMessage
from mutirao.transports.rabbitmq import wire
from mutirao.transports.rabbitmq.hand import Hand, Taken, hand_in
from mutirao.transports.rabbitmq.links import Links, Parcel
from mutirao.transports.rabbitmq.tokens import order_to_start, put_token
from mutirao.transports.rabbitmq.topology import Topology

SHOWN = 1 << 20  # bytes of a body that are looked at: many of 128 MiB would fill the memory


class Graveyard:
    """The dead of one queue. Taken ones that are not removed are back when a method returns."""

    def __init__(self, links: Links, topology: Topology, queue: str) -> None:
        self._links, self._topology, self._queue = links, topology, queue

    async def look(self, most: int) -> list[DeadMessage]:
        """Return the oldest dead messages."""
        async with self._hand() as hand:
            return [
                wire.dead_message(each.properties, each.body[:SHOWN], self._queue)
                async for each in hand.take(most)
            ]

    async def give_back(self, ids: Sequence[str] | None) -> int:
        """Publish dead messages to their queue, each confirmed before it is taken away."""
        number = 0
        async with self._hand() as hand:
            async for each in _chosen(hand, ids):
                await self._send_back(each)
                await hand.take_away(each)
                number += 1
        return number

    async def _send_back(self, message: Taken) -> None:
        properties = message.properties
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
            async for each in _chosen(hand, ids):
                await hand.take_away(each)
                number += 1
        return number

    def _hand(self) -> AbstractAsyncContextManager[Hand]:
        return hand_in(self._links, self._topology.dead(self._queue))


async def _chosen(hand: Hand, ids: Sequence[str] | None) -> AsyncIterator[Taken]:
    """Yield the dead messages with these ids, or all."""
    wanted = None if ids is None else set(ids)
    async for each in hand.take(None):
        if wanted is None or wire.dead_id(each.properties) in wanted:
            yield each
