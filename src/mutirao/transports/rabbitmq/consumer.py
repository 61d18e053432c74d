"""The deliveries of one queue to one worker, over one channel."""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Sequence
from typing import Any

from aiormq.abc import AbstractChannel

from mutirao.errors import TransportError, TransportMismatch, TransportUnavailable
from mutirao.model.brokers.message import Ack, Again, Delivery, Settling
from mutirao.ports.arrivals import Arrivals
from mutirao.ports.transport import OnLost
from mutirao.transports.rabbitmq import wire
from mutirao.transports.rabbitmq.deliveries import Arrived, Taker
from mutirao.transports.rabbitmq.links import (
    CALL_LIMIT,
    FAILURES,
    TOO_LONG,
    Links,
    Parcel,
    raise_if_other,
)
from mutirao.transports.rabbitmq.prefetch import Prefetch
from mutirao.transports.rabbitmq.reading import Read, delivery_of, foreign_delivery, large_delivery
from mutirao.transports.rabbitmq.settling import not_mine, parcel_for, publish
from mutirao.transports.rabbitmq.topology import Topology, is_there

log = logging.getLogger("mutirao")
# Seconds without a delivery after which the broker is asked for its consumers and its waiting
# messages: at first, later, and once a message waits that should have come.
LOOK_EVERY, LOOK_SELDOM, LOOK_AGAIN = 5.0, 10.0, 1.0
# Seconds before each look for a queue whose consumer was ended: RabbitMQ 4.3 deletes it after that.
LOOKS_FOR_QUEUE = (0.0, 0.05, 0.2, 0.75)
HOP_AGAIN_AFTER = 1.0  # seconds after which a step of a delay that was not confirmed is tried again


class RabbitConsumer:
    """One consumer. What it holds is kept in the order of its delivery tags.

    `largest`: the maximum bytes of a body. A larger one is delivered as what cannot be read; of
    several one at a time is held in memory, and the others go back to the queue until then.
    """

    def __init__(
        self,
        links: Links,
        topology: Topology,
        queue: str,
        channel: AbstractChannel,
        on_lost: OnLost,
        largest: int,
    ) -> None:
        self._links, self._topology, self._queue = links, topology, queue
        self._channel, self._on_lost, self._largest = channel, on_lost, largest
        self._large: int | None = None  # the tag of the one that is held
        self._later: deque[int] = deque()  # the tags of others, whose bodies were not kept
        self._held: dict[int, Arrived] = {}
        self._out: dict[int, Delivery] = {}  # those that were, or are to be, received
        self._come: Arrivals[Delivery] = Arrivals()
        self._latest = 0  # the tag of the latest delivery
        self._prefetch = Prefetch(self, lambda: len(self._held), lambda: self._latest, self._break)
        # If it consumes a queue of other programs: messages that come again are in a queue of
        # Mutirão.
        self._own_tag: str | None = None
        self._left = self._arrived = self._deleted = self._stopped = False
        self._asking: asyncio.Task[None] | None = None
        self._said = ""  # what was logged about failing hops
        self._watching: asyncio.Task[None] | None = None
        self._looks = False  # whether the broker is asked at this moment
        self._hops: set[asyncio.Task[None]] = set()

    async def begin(self, prefetch: int) -> None:
        """Begin to consume."""
        self._channel.closing.add_done_callback(self._closed)
        self._channel.on_consumer_cancel_callbacks.add(self._cancelled)
        if self._topology.source is not None:
            self._own_tag = await self.consume(prefetch, self._topology.queue(self._queue))
        await self._prefetch.resize(prefetch)
        self._watching = asyncio.create_task(self._watch())

    def leave(self) -> None:
        """Hold nothing any more: the channel is closed next."""
        self._left = True
        if self._watching is not None and not self._looks:  # aiormq warns of interrupted requests
            self._watching.cancel()
        self._prefetch.leave()
        self._take_no_more()
        for hop in self._hops:
            hop.cancel()

    @property
    def paused(self) -> TransportError | None:
        """Return None: an error breaks it; see `Consumer.paused`."""
        return None

    async def receive(self, most: int) -> list[Delivery]:
        """Wait for deliveries; see `Consumer.receive`."""
        return await self._come.take(most)

    async def settle(self, settlings: Sequence[Settling]) -> list[TransportError | None]:
        """Settle deliveries; see `Consumer.settle`."""
        parcels = {n: self._parcel(each) for n, each in enumerate(settlings)}
        results: list[TransportError | None] = [None] * len(settlings)
        done: list[int] = []
        sending: list[tuple[int, Awaitable[TransportError | None]]] = []
        for n, each in enumerate(settlings):
            tag, parcel = each.delivery.tag, parcels[n]
            if isinstance(parcel, TransportError):
                results[n] = parcel
            elif self._out.pop(tag, None) is None:
                results[n] = not_mine(tag)
            elif parcel is None:
                done.append(tag)
            else:
                held = self._held[tag]
                publishing = publish(self._links, self._topology, self._queue, held, each, parcel)
                sending.append((n, publishing))
        errors = await asyncio.gather(*(each for _, each in sending))
        for (n, _), error in zip(sending, errors, strict=True):
            results[n], delivery = error, settlings[n].delivery
            if error is None:
                done.append(delivery.tag)
            else:
                self._out[delivery.tag] = delivery
        if self._deleted:  # with its queue, and so there is nothing to acknowledge
            for tag in done:
                del self._held[tag]
        await self._acknowledge(done)
        if any(isinstance(each, Again) and each.message.suspect for each in settlings):
            await self._be_sure()
        return results

    async def _be_sure(self) -> None:
        """Wait until the broker has all acknowledgements: a suspect may end this process next."""
        if self._come.broken is None and not self._left:
            await self._looked()

    def _parcel(self, settling: Settling) -> Parcel | TransportError | None:
        """Return what to publish for a settlement, or why it is not settled."""
        tag = settling.delivery.tag
        gone = self._come.broken is not None and not self._deleted
        if gone or tag not in self._out:
            return not_mine(tag)
        if isinstance(settling, Ack):
            return None
        try:
            return parcel_for(self._topology, self._queue, self._held[tag], settling)
        except TransportError as refused:
            return refused

    async def resize(self, prefetch: int) -> None:
        """Change the prefetch; see `Consumer.resize`."""
        if self._stopped or self._come.broken is not None:
            return
        await self._prefetch.resize(prefetch)

    async def stop(self) -> None:
        """Hand out no more; see `Consumer.stop`."""
        if self._stopped:
            return
        self._stopped = True
        await self._prefetch.stop()
        if self._own_tag is not None:
            await self.cancel(self._own_tag)
        self._come.ended = True
        self._come.notify()

    async def consume(self, prefetch: int, name: str | None = None) -> str:
        """Begin one more consumer of the queue, or of the one of this name; see `Prefetch`."""
        source = self._topology.source
        name = name or source or self._topology.queue(self._queue)
        callback = self._on_foreign if name == source else self._on_message
        taker = Taker(callback, self._largest, self._keeps)
        try:
            await self._channel.basic_qos(prefetch_count=prefetch, timeout=CALL_LIMIT)
            return await self._links.consume(self._channel, name, taker)
        except FAILURES as error:
            raise_if_other(error)
            failure = self._links.translated(error)
            if name == source and isinstance(failure, TransportMismatch):
                raise TransportMismatch(
                    f"queue {name!r} cannot be consumed: {error}; it is of other programs, which"
                    " are to make it, and to let this user read it"
                ) from None
            raise failure from error

    async def cancel(self, tag: str) -> None:
        """Cancel a consumer; see `Prefetch`."""
        if self._come.broken is not None:
            return
        try:
            await self._channel.basic_cancel(tag, timeout=CALL_LIMIT)
        except FAILURES as error:
            raise_if_other(error)
            self._break(self._links.translated(error))
        else:
            self._links.leave(tag)

    def _on_message(self, message: Arrived) -> None:
        """Receive a message from a queue of Mutirão."""
        self._held[message.tag] = message
        self._latest = message.tag
        if message.size > self._largest:
            self._take_large(message, theirs=False)
            return
        read = wire.plain_message(message.header, message.body, self._queue)
        if read is not None:  # which is its first hand-out
            self._hand_out(Delivery(read, message.body, None, message.tag))
        else:
            self._take(message, delivery_of)

    def _on_foreign(self, message: Arrived) -> None:
        """Receive a message from a queue of other programs."""
        self._held[message.tag] = message
        self._latest = message.tag
        if message.size > self._largest:
            self._take_large(message, theirs=True)
        else:
            self._take(message, foreign_delivery)

    def _take(self, message: Arrived, read: Read) -> None:
        """Deliver the content of a message, or forward it if it is not for a handler now."""
        found = read(self._topology, self._queue, message)
        if isinstance(found, Parcel):
            self._start_sending(message.tag, found)
        else:
            self._hand_out(found)

    def _keeps(self, message: Arrived) -> bool:
        """Return whether a large body is kept: if no other one is."""
        if self._large is not None:
            return False
        self._large = message.tag
        return True

    def _take_large(self, message: Arrived, *, theirs: bool) -> None:
        """Deliver a message that is larger than the limit, or have it delivered again."""
        if message.tag == self._large:
            self._hand_out(large_delivery(message, self._largest, theirs=theirs))
        else:
            self._later.append(message.tag)

    async def _watch(self) -> None:
        """Ask while nothing comes whether the broker knows this consumer, and end if not.

        RabbitMQ 3.10 says that one consumes, has no consumer then and cancels none, where a quorum
        queue was deleted and made again some times in a row: in each of three runs. While something
        is held it is not asked: a broker without a leader for the queue says 0, too.
        """
        wait, was_passed_over = LOOK_EVERY, False
        while not self._come.ended and self._come.broken is None and not self._left:
            self._arrived = False
            await asyncio.sleep(wait)
            if self._arrived or self._held or self._come.ended:
                wait, was_passed_over = LOOK_EVERY, False
                continue
            self._looks = True
            looked = await self._looked()
            self._looks = False
            if looked is None:
                return
            waiting, consumers = looked
            passed_over = bool(waiting) and not self._arrived
            if not consumers or (passed_over and was_passed_over):
                said = f"{consumers} consume, and {waiting} messages wait that it is not given"
                self._break(TransportUnavailable(f"the broker has forgotten this consumer: {said}"))
            was_passed_over = passed_over
            wait = LOOK_AGAIN if passed_over else LOOK_SELDOM

    async def _looked(self) -> tuple[int, int] | None:
        """Look; None if that cannot be done, which ends this consumer."""
        try:
            return await self._look()
        except FAILURES as error:
            raise_if_other(error)
            self._break(self._links.translated(error))
            return None

    async def _look(self) -> tuple[int, int]:
        """Return how many messages wait though this consumer holds none, and the consumers.

        The broker would hand out messages that wait in a queue of ours. Those in a queue of other
        programs may be for consumers of a higher priority, or for its single active consumer.
        """
        source = self._topology.source
        name = source or self._topology.queue(self._queue)
        answer = await self._channel.queue_declare(name, passive=True, timeout=CALL_LIMIT)
        return (0 if source else answer.message_count or 0), answer.consumer_count or 0

    def _hand_out(self, delivery: Delivery) -> None:
        self._arrived = True
        self._out[delivery.tag] = delivery
        self._come.put(delivery)

    def _start_sending(self, tag: int, parcel: Parcel) -> None:
        """Send a message on that is not for a handler now."""
        if tag in self._held and not self._left:
            hop = asyncio.create_task(self._send_on(tag, parcel))
            self._hops.add(hop)
            hop.add_done_callback(self._hops.discard)

    async def _send_on(self, tag: int, parcel: Parcel) -> None:
        if (error := await self._links.publish(parcel)) is None:
            self._said = ""
            await self._acknowledge([tag])
            return
        if str(error) != self._said:
            self._said = str(error)
            log.warning(
                "what waits in queue %r cannot be sent on: %s; trying again", self._queue, error
            )
        loop = asyncio.get_running_loop()
        loop.call_later(HOP_AGAIN_AFTER, self._start_sending, tag, parcel)

    async def _acknowledge(self, tags: Sequence[int]) -> None:
        """Acknowledge deliveries; up to the first that is still held, all of them in one frame."""
        if not tags or self._come.broken is not None:
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
            if self._large in done:
                await self._let_next_large_come()
        except FAILURES as error:  # they come again: they are lost to us
            raise_if_other(error)
            self._break(self._links.translated(error))

    async def _let_next_large_come(self) -> None:
        self._large = None
        if self._later:
            tag = self._later.popleft()
            del self._held[tag]
            await self._channel.basic_nack(tag, requeue=True, wait=False)

    async def _cancelled(self, _: Any) -> None:
        """Receive no more: the broker has cancelled the consumer, as of a queue that was deleted.

        Since 4.3 it does so as well where a handler takes too long; then the queue is still there.
        """
        if self._come.ended or self._left:
            return
        if self._links.version_of(self._channel) < (4, 3):
            self._end_without_queue()
        elif self._asking is None:
            self._asking = asyncio.create_task(self._ask_for_queue())

    async def _ask_for_queue(self) -> None:
        name = self._topology.source or self._topology.queue(self._queue)
        try:
            deleted = await self._is_deleted(name)
        except TransportError as error:
            self._break(error)
            return
        if deleted:
            self._end_without_queue()
        else:
            said = f"the broker has ended the consumer of {name}, as it does where {TOO_LONG}"
            self._break(TransportUnavailable(said))

    async def _is_deleted(self, name: str) -> bool:
        for wait in LOOKS_FOR_QUEUE:
            await asyncio.sleep(wait)
            if not await is_there(name, self._links.channel):
                return True
        return False

    def _end_without_queue(self) -> None:
        """Let received messages finish: no other consumer can get them. The rest is lost."""
        if self._come.broken is None:
            self._come.broken = TransportUnavailable("the queue that is consumed was deleted")
            self._deleted = True
            self._take_no_more()
            for each in self._come:
                del self._out[each.tag]
            self._come.clear()
            self._come.notify()

    def _closed(self, closing: "asyncio.Future[Any]") -> None:
        self._break(self._links.why_closed(closing))

    def _take_no_more(self) -> None:
        for tag in (*self._prefetch.tags, self._own_tag):
            self._links.leave(tag)

    def _break(self, error: Exception) -> None:
        if self._come.broken is not None or self._left:
            return
        self._come.broken = error
        self._prefetch.leave()
        self._take_no_more()
        lost = list(self._out.values())
        self._held.clear()
        self._later.clear()
        self._out.clear()
        self._come.clear()
        for hop in self._hops:
            hop.cancel()
        self._come.notify()
        if lost:
            self._on_lost(lost)
