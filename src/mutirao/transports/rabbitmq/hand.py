"""Reads a queue that has no consumer: messages are got, and go back unless they are removed."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

from aiormq.abc import AbstractChannel

from mutirao.transports.rabbitmq.fields import Properties, unwrapped
from mutirao.transports.rabbitmq.links import CALL_LIMIT, Links

MOST_LOOKS, LOOK_EVERY = 200, 0.01  # seconds, until what was looked at is back


class Taken(NamedTuple):
    """A message that was taken."""

    tag: int
    body: bytes
    properties: Properties


class Hand:
    """Messages got from a queue over one channel."""

    def __init__(self, channel: AbstractChannel, name: str) -> None:
        self._channel, self._name, self._held = channel, name, 0

    async def take(self, most: int | None) -> AsyncIterator[Taken]:
        """Yield messages, no more than there were at the beginning; None: all of those."""
        there = await self._count()
        for _ in range(there if most is None else min(there, most)):
            message = await self._channel.basic_get(self._name, timeout=CALL_LIMIT)
            if message.delivery_tag is None:
                return
            self._held += 1
            properties = unwrapped(message.header.properties)
            yield Taken(message.delivery_tag, message.body, properties)

    async def take_away(self, message: Taken) -> None:
        """Delete a message that was taken."""
        await self._channel.basic_ack(message.tag)
        self._held -= 1

    async def give_back(self) -> None:
        """Return the others, and wait a little until they are there: the next reader sees them.

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


@asynccontextmanager
async def hand_in(links: Links, name: str) -> AsyncIterator[Hand]:
    """Lend a hand in the queue of this name; what it still holds at the end goes back.

    Raises:
        TransportError: the broker is away, or has no such queue.
    """
    async with links.channel() as channel:
        hand = Hand(channel, name)
        yield hand
        await hand.give_back()
