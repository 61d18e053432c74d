"""The deliveries of one queue to one worker, over one channel."""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Any

from aiormq.abc import AbstractChannel, DeliveredMessage

from mutirao.errors import (
    DeliveryLost,
    TransportError,
    TransportUnavailable,
)
from mutirao.model.message import Ack, Again, Bury, Delivery, Settling
from mutirao.ports.transport import OnLost
from mutirao.transports.rabbitmq import wire
from mutirao.transports.rabbitmq.delays import next_step
from mutirao.transports.rabbitmq.links import (
    CALL_LIMIT,
    FAILURES,
    Links,
    Parcel,
    raise_if_cancelled,
)
from mutirao.transports.rabbitmq.sending import parcel_of
from mutirao.transports.rabbitmq.topology import Topology

HOP_AGAIN_AFTER = 1.0  # seconds after which a step of a delay that was not confirmed is tried again


class RabbitConsumer:
    """One consumer. What it holds is kept in the order of its delivery tags."""

    def __init__(
        self,
        links: Links,
        topology: Topology,
        queue: str,
        channel: AbstractChannel,
        on_lost: OnLost,
    ) -> None:
        self._links, self._topology, self._queue = links, topology, queue
        self._channel, self._on_lost = channel, on_lost
        self._held: dict[int, DeliveredMessage] = {}
        self._out: dict[int, Delivery] = {}  # those that were, or are to be, received
        self._come: deque[Delivery] = deque()
        self._something = asyncio.Event()
        # The broker counts the prefetch for each consumer: one has what is always held, another
        # what more is held at times, so that a change concerns the second only.
        self._base = self._extra = 0
        self._base_tag: str | None = None
        self._extra_tag: str | None = None
        self._broken: TransportError | None = None
        self._stopped = self._left = False
        self._hops: set[asyncio.Task[None]] = set()

    async def begin(self, prefetch: int) -> None:
        """Begin to consume."""
        self._channel.closing.add_done_callback(self._closed)
        self._channel.on_consumer_cancel_callbacks.add(self._cancelled)
        self._base, self._base_tag = prefetch, await self._consume(prefetch)

    def leave(self) -> None:
        """Hold nothing any more: the channel is closed next."""
        self._left = True
        for hop in self._hops:
            hop.cancel()

    async def receive(self, most: int) -> list[Delivery]:
        """Wait for deliveries; see `Consumer.receive`."""
        while not self._come:
            if self._broken is not None:
                raise self._broken
            if self._stopped:
                return []
            self._something.clear()
            await self._something.wait()
        return [self._come.popleft() for _ in range(min(most, len(self._come)))]

    async def settle(self, settlings: Sequence[Settling]) -> list[TransportError | None]:
        """Settle deliveries; see `Consumer.settle`."""
        results: list[TransportError | None] = [None] * len(settlings)
        done: list[int] = []
        sending: list[tuple[int, int, Parcel]] = []
        for n, each in enumerate(settlings):
            tag = each.delivery.tag
            if self._broken is not None or self._out.pop(tag, None) is None:
                results[n] = DeliveryLost(f"delivery {tag} is not this consumer's any more")
            elif isinstance(each, Ack):
                done.append(tag)
            else:
                try:
                    sending.append((n, tag, self._parcel(each)))
                except TransportError as refused:
                    results[n] = refused
                    self._out[tag] = each.delivery
        if sending:
            told = await asyncio.gather(*(self._links.publish(each) for _, _, each in sending))
            for (n, tag, _), error in zip(sending, told, strict=True):
                results[n] = error
                if error is None:
                    done.append(tag)
                else:
                    self._out[tag] = settlings[n].delivery
        await self._acknowledge(done)
        return results

    async def resize(self, prefetch: int) -> None:
        """Change the prefetch; see `Consumer.resize`."""
        if self._stopped or self._broken is not None:
            return
        extra = max(0, prefetch - self._base)
        if extra != self._extra:
            tag, self._extra_tag = self._extra_tag, None
            await self._cancel(tag)
            self._extra = extra
            self._extra_tag = await self._consume(extra) if extra else None
        if prefetch < self._base:
            await self._cancel(self._base_tag)
            self._base, self._base_tag = prefetch, await self._consume(prefetch)

    async def stop(self) -> None:
        """Have no more handed out; see `Consumer.stop`."""
        if not self._stopped:
            self._stopped = True
            await self._cancel(self._base_tag)
            await self._cancel(self._extra_tag)
            self._something.set()

    async def _consume(self, prefetch: int) -> str | None:
        try:
            await self._channel.basic_qos(prefetch_count=prefetch, timeout=CALL_LIMIT)
            answer = await self._channel.basic_consume(
                self._topology.queue(self._queue), self._on_message, timeout=CALL_LIMIT
            )
        except FAILURES as error:
            raise_if_cancelled(error)
            raise self._links.translated(error) from error
        return answer.consumer_tag

    async def _cancel(self, tag: str | None) -> None:
        if tag is None or self._broken is not None:
            return
        try:
            await self._channel.basic_cancel(tag, timeout=CALL_LIMIT)
        except FAILURES as error:
            raise_if_cancelled(error)
            self._break(self._links.translated(error))

    async def _on_message(self, message: DeliveredMessage) -> None:
        tag: Any = message.delivery_tag
        self._held[tag] = message
        properties = message.header.properties
        if properties.headers and (rest := wire.rest_of(properties)):
            self._start_hop(tag, message, rest)
            return
        try:
            read = wire.message_of(properties, message.body, self._queue)
            delivery = Delivery(read, message.body, None, tag)
        except wire.Unreadable as why:
            delivery = Delivery(None, message.body, str(why), tag)
        self._out[tag] = delivery
        self._come.append(delivery)
        self._something.set()

    def _start_hop(self, tag: int, message: DeliveredMessage, rest: float) -> None:
        if tag in self._held and not self._left:
            hop = asyncio.create_task(self._hop(tag, message, rest))
            self._hops.add(hop)
            hop.add_done_callback(self._hops.discard)

    async def _hop(self, tag: int, message: DeliveredMessage, rest: float) -> None:
        """Send a message on that has waited one period of several."""
        step = next_step(rest)
        properties = wire.waiting_on(message.header.properties, step.rest)
        where = self._topology.delay(step.period)
        parcel = Parcel(where, self._queue, message.body, properties)
        if await self._links.publish(parcel) is None:
            await self._acknowledge([tag])
        else:
            loop = asyncio.get_running_loop()
            loop.call_later(HOP_AGAIN_AFTER, self._start_hop, tag, message, rest)

    def _parcel(self, settling: Again | Bury) -> Parcel:
        message = self._held[settling.delivery.tag]
        if isinstance(settling, Again):
            return parcel_of(self._topology, settling.message, settling.after)
        properties = wire.dead_properties(message.header.properties, settling.cause)
        return Parcel(self._topology.dead_exchange, self._queue, message.body, properties)

    async def _acknowledge(self, tags: Sequence[int]) -> None:
        """Acknowledge deliveries; up to the first that is still held, all of them in one frame."""
        if not tags or self._broken is not None:
            return
        done, first = set(tags), 0
        for held in self._held:
            if held not in done:
                break
            first = held
        try:
            if first:
                await self._channel.basic_ack(first, multiple=True, wait=False)
            for tag in done:
                if tag > first:
                    await self._channel.basic_ack(tag, wait=False)
                del self._held[tag]
        except FAILURES as error:  # they come again: they are as good as lost
            raise_if_cancelled(error)
            self._break(self._links.translated(error))

    async def _cancelled(self, _: Any) -> None:
        """Give up: the broker has cancelled the consumer, as of a queue that was deleted."""
        self._break(TransportUnavailable("the broker has ended the consumer of this queue"))

    def _closed(self, closing: "asyncio.Future[Any]") -> None:
        if not closing.cancelled() and (error := closing.exception()) is not None:
            self._break(self._links.translated(error))
        else:
            self._break(TransportUnavailable("the connection to the broker was closed"))

    def _break(self, error: TransportError) -> None:
        if self._broken is not None or self._left:
            return
        self._broken = error
        lost = list(self._out.values())
        self._held.clear()
        self._out.clear()
        self._come.clear()
        for hop in self._hops:
            hop.cancel()
        self._something.set()
        if lost:
            self._on_lost(lost)
