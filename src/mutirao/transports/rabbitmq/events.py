"""Events by RabbitMQ: messages of a topic exchange that are not confirmed and not kept.

A message holds the events of one key within a tenth of a second, as a JSON array. Events have a
connection of their own, so that a broker which takes nothing holds up no job.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from contextvars import Context
from datetime import UTC, datetime
from hashlib import blake2s
from time import monotonic
from typing import Any
from uuid import uuid4

import msgspec
from aiormq.abc import AbstractChannel, DeliveredMessage
from pamqp.commands import Basic

from mutirao.errors import TransportError, TransportUnavailable
from mutirao.model.jobs.events import EventKey, JobEvent
from mutirao.ports.events import SAY_EVERY, Dropped, Drops, EventFeed
from mutirao.transports.event_buffer import Bundle, EventBuffer
from mutirao.transports.rabbitmq import fields
from mutirao.transports.rabbitmq.hand import hand_in
from mutirao.transports.rabbitmq.links import CALL_LIMIT, FAILURES, Links, raise_if_other
from mutirao.transports.rabbitmq.topology import DROPPED, Topology, word_of

LINGER = 0.1  # seconds that events wait for others
SEND_LIMIT = 5.0  # seconds in which the broker takes a message, or it is dropped
AGAIN_AFTER = 1.0  # seconds until it is tried again
LAST_LIMIT = 1.0  # seconds to publish the remaining events at the end
TRANSIENT = 1
UNFIT = (msgspec.MsgspecError, ValueError, RecursionError)
PUBLISHER, FIRST = "mutirao-teller", "mutirao-first"
LONGEST_WORD = 100  # bytes of a name in a routing key, which has 255 at most
# Of a listener's queue, for one that reads slowly: messages, and their bytes.
MOST_UNREAD, MOST_BYTES = 10_000, 16 << 20


class EventPublisher:
    """Publishes the events of one event loop."""

    def __init__(self, links: Links, topology: Topology, drops: Drops) -> None:
        self._links, self._exchange, self._drops = links, topology.events, drops
        self._waiting = EventBuffer(drops)
        self._publisher = uuid4().hex
        self._channel: AbstractChannel | None = None
        self._publishing: asyncio.Task[None] | None = None
        self._note_at = 0.0

    def add(self, event: JobEvent) -> None:
        """Add an event that is published soon."""
        self._waiting.add(event)
        if self._publishing is None or self._publishing.done():
            loop = asyncio.get_running_loop()
            self._publishing = loop.create_task(self._publish_all(), context=Context())

    async def close(self) -> None:
        """Publish the remaining events."""
        if self._publishing is not None:
            self._publishing.cancel()
            await asyncio.wait([self._publishing])
        with suppress(TimeoutError):
            async with asyncio.timeout(LAST_LIMIT):
                await self._send()

    async def _publish_all(self) -> None:
        while self._waiting:
            await asyncio.sleep(LINGER)
            try:
                async with asyncio.timeout(SEND_LIMIT):
                    sent = await self._send()
            except TimeoutError:
                sent = False
                await self._links.drop("events")  # with unsent events
            if not sent:
                await asyncio.sleep(AGAIN_AFTER)

    async def _send(self) -> bool:
        """Publish waiting events; return whether the broker is reachable, otherwise drop them."""
        left = list(self._waiting.take())
        try:
            while left:
                await self._publish(left[0])
                del left[0]
            await self._note_drops()
        except TransportError:
            return False
        except FAILURES as error:
            raise_if_other(error)
            return False
        finally:
            self._drops.add(sum(len(each.events) for each in left))
        return True

    async def _note_drops(self) -> None:
        """Record once a minute how many were dropped, for users that ask later."""
        if self._channel is None or self._channel.is_closed or monotonic() < self._note_at:
            return
        if more := self._drops.to_note():
            self._note_at = monotonic() + SAY_EVERY
            body = msgspec.json.encode(Dropped(more, datetime.now(UTC)))
            properties = Basic.Properties(content_type="application/json")
            await self._channel.basic_publish(
                body, exchange=self._exchange, routing_key=DROPPED, properties=properties
            )

    async def _publish(self, bundle: Bundle) -> None:
        if self._channel is None or self._channel.is_closed:
            self._channel = await self._links.opened("events", confirms=False)
            # Without confirms only this check finds that it is missing.
            await self._channel.exchange_declare(self._exchange, passive=True, timeout=CALL_LIMIT)
        headers: Any = {PUBLISHER: self._publisher, FIRST: bundle.first}
        await self._channel.basic_publish(
            msgspec.json.encode(bundle.events),
            exchange=self._exchange,
            routing_key=_key(bundle.key),
            properties=Basic.Properties(
                content_type="application/json", delivery_mode=TRANSIENT, headers=headers
            ),
        )


@asynccontextmanager
async def listening(
    links: Links, topology: Topology, filters: Sequence[EventKey], feed: EventFeed
) -> AsyncIterator["asyncio.Future[TransportError]"]:
    """Listen by a queue of its own; see `TellsEvents.listen`."""
    ended: asyncio.Future[TransportError] = asyncio.get_running_loop().create_future()

    def end(error: TransportError) -> None:
        if not ended.done():
            ended.set_result(error)

    async def on_message(message: DeliveredMessage) -> None:
        headers = fields.unwrapped(message.header.properties).headers or {}
        with suppress(*UNFIT):  # not from a publisher of events
            events = msgspec.json.decode(message.body, type=list[JobEvent])
            if events:
                feed.put(str(headers.get(PUBLISHER)), int(str(headers.get(FIRST))), events)

    async def cancelled(_: object) -> None:
        end(TransportUnavailable("the broker has ended the consumer of events"))

    async with links.channel(consuming=True) as channel:
        channel.closing.add_done_callback(lambda closing: end(links.why_closed(closing)))
        channel.on_consumer_cancel_callbacks.add(cancelled)
        queue = f"{topology.events}.{uuid4().hex}"
        bounds: Any = {"x-max-length": MOST_UNREAD, "x-max-length-bytes": MOST_BYTES}
        await channel.queue_declare(
            queue, exclusive=True, auto_delete=True, arguments=bounds, timeout=CALL_LIMIT
        )
        for each in filters:
            await channel.queue_bind(queue, topology.events, _key(each), timeout=CALL_LIMIT)
        await channel.basic_consume(queue, on_message, no_ack=True, timeout=CALL_LIMIT)
        yield ended


async def dropped_lately(links: Links, topology: Topology) -> Dropped | None:
    """Return the sum of the drops that publishers have noted; see `TellsEvents.dropped`."""
    found: list[Dropped] = []
    async with hand_in(links, topology.events) as hand:
        async for each in hand.take(None):
            with suppress(*UNFIT):  # not from a publisher of events
                found.append(msgspec.json.decode(each.body, type=Dropped))
    if not found:
        return None
    return Dropped(sum(each.number for each in found), max(each.last_at for each in found))


def _key(key: EventKey) -> str:
    """Return the routing key of events, or the pattern of a filter: kind, task and queue."""
    return ".".join("*" if each is None else _word(each) for each in key)


def _word(name: str) -> str:
    """Return a name as one word of a routing key."""
    word = word_of(name)
    if len(word) <= LONGEST_WORD:
        return word
    return f"+{blake2s(name.encode(), digest_size=16).hexdigest()}"
