"""A broker in the memory of this process: for tests, and the reference for other transports.

Nothing outlives the process. It may be used from several event loops and threads.
"""

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from math import inf
from typing import NamedTuple

from mutirao.errors import (
    DeliveryLost,
    MessageTooLarge,
    TransportError,
    TransportMismatch,
    TransportRefused,
    TransportUnavailable,
)
from mutirao.model.brokers.foreign import ForeignMessage
from mutirao.model.brokers.message import (
    Ack,
    Again,
    Bury,
    Cause,
    DeadMessage,
    Delivery,
    Difference,
    Message,
    Mode,
    Settling,
)
from mutirao.ports.arrivals import Arrivals
from mutirao.ports.transport import OnLost
from mutirao.transports.memory_events import MemoryEvents

NO_MESSAGE = "it is no message of Mutirão; whoever published it must say how to read it"


class _Ready(NamedTuple):
    what: Message | bytes
    returned: int = 0  # how often it was handed out and came back


@dataclass
class _Queue:
    ready: deque[_Ready] = field(default_factory=deque)
    dead: list[DeadMessage] = field(default_factory=list)
    buried: dict[str, Message | bytes] = field(default_factory=dict)
    consumers: list["_Consumer"] = field(default_factory=list)


class MemoryTransport(MemoryEvents):
    """A broker in memory.

    Parameters:
        mode: how its messages relate to the store.
        longest_delay: the maximum seconds of a message's delay.
        max_size: the maximum bytes of a message's arguments.
        source: a queue of other programs to consume: what `publish_raw` puts there is for decoders.
        tells: whether it publishes job events.
    """

    rewrites = True
    longest_again = inf
    name = "memory"

    def __init__(
        self,
        mode: Mode = "alone",
        *,
        longest_delay: float = 900.0,
        max_size: int = 1 << 20,
        source: str | None = None,
        tells: bool = False,
    ) -> None:
        self.mode: Mode = mode
        super().__init__(tells)
        self.source = source
        self.longest_delay, self._max_size = longest_delay, max_size
        self.available = True  # False: as if the broker was away
        self._queues: dict[str, _Queue] = {}
        self._lock = threading.RLock()
        self._numbers = count(1)
        self._timers: set[threading.Timer] = set()
        self._listeners: set[_Announcements] = set()

    async def publish(self, messages: Sequence[Message]) -> list[TransportError | None]:
        """Publish messages; see `Transport.publish`."""
        with self._lock:
            return [self._take(each) for each in messages]

    def publish_raw(self, queue: str, body: bytes) -> None:
        """Publish bytes that are no message, as other programs might."""
        with self._lock:
            self._queues[queue].ready.append(_Ready(body))
            self.hand_out(queue)

    @asynccontextmanager
    async def consumer(
        self, queue: str, prefetch: int, on_lost: OnLost, *, grace: float = inf
    ) -> AsyncIterator["_Consumer"]:
        """Consume a queue until the block is left; see `Transport.consumer`."""
        self._check_available()
        consumer = _Consumer(self, queue, prefetch, on_lost)
        with self._lock:
            self._queue(queue).consumers.append(consumer)
            self.hand_out(queue)
        try:
            yield consumer
        finally:
            self.leave(consumer)

    @asynccontextmanager
    async def announcements(self) -> AsyncIterator["_Announcements"]:
        """Listen to the announcements of workers; see `Announces.announcements`."""
        self._check_available()
        listener = _Announcements(self.announce)
        self._listeners.add(listener)
        try:
            yield listener
        finally:
            self._listeners.discard(listener)

    def announce(self, body: bytes) -> None:
        """Send an announcement to all listeners."""
        self._check_available()
        for each in list(self._listeners):
            each.hear(body)

    async def declare(self, queues: Sequence[str]) -> list[str]:
        """Make queues; see `Transport.declare`."""
        self._check_available()
        with self._lock:
            for each in queues:
                self._queues.setdefault(each, _Queue())
        return list(queues)

    async def compare(self, queues: Sequence[str]) -> list[Difference]:
        """Return what is missing; see `Transport.compare`."""
        self._check_available()
        missing = [each for each in queues if each not in self._queues]
        return [Difference(f"queue {each!r}", "a queue", None) for each in missing]

    async def waiting(self, queue: str) -> int:
        """Return how many messages wait; see `Transport.waiting`."""
        self._check_available()
        with self._lock:
            return len(self._queue(queue).ready)

    async def dead_count(self, queue: str) -> int:
        """Return how many dead messages there are; see `Transport.dead_count`."""
        self._check_available()
        with self._lock:
            return len(self._queue(queue).dead)

    async def dead(self, queue: str, most: int) -> list[DeadMessage]:
        """Return dead messages; see `Transport.dead`."""
        self._check_available()
        with self._lock:
            return self._queue(queue).dead[:most]

    async def return_dead(self, queue: str, ids: Sequence[str] | None) -> int:
        """Send dead messages back; see `Transport.return_dead`."""
        self._check_available()
        with self._lock:
            found = self._take_dead(queue, ids)
            for each in found:
                fresh = each if isinstance(each, bytes) else _afresh(each)
                self._queue(queue).ready.append(_Ready(fresh))
            self.hand_out(queue)
        return len(found)

    async def drop_dead(self, queue: str, ids: Sequence[str] | None) -> int:
        """Delete dead messages; see `Transport.drop_dead`."""
        self._check_available()
        with self._lock:
            return len(self._take_dead(queue, ids))

    async def aclose(self) -> None:
        """Forget the delays that have not passed."""
        with self._lock:
            for timer in self._timers:
                timer.cancel()
            self._timers.clear()

    def lose_consumers(self) -> None:
        """Break the connections of all consumers, as a broker that restarts does."""
        with self._lock:
            consumers = [each for queue in self._queues.values() for each in queue.consumers]
            for each in consumers:
                self.leave(each, broken=True)
        self.lose_hearers()

    def purge(self, queue: str) -> int:
        """Throw away all that waits in a queue; return how many messages that were."""
        with self._lock:
            ready = self._queue(queue).ready
            messages = len(ready)
            ready.clear()
        return messages

    def leave(self, consumer: "_Consumer", *, broken: bool = False) -> None:
        """Take back deliveries that a consumer has not settled."""
        with self._lock:
            queue = self._queue(consumer.queue)
            if consumer not in queue.consumers:
                return
            queue.consumers.remove(consumer)
            queue.ready.extendleft(reversed(consumer.take_back(broken)))
            self.hand_out(consumer.queue)

    def settle(self, consumer: "_Consumer", settling: Settling) -> TransportError | None:
        """Settle one delivery of a consumer."""
        with self._lock:
            if not self.available:
                return TransportUnavailable("the broker in memory is away; try again")
            delivery = settling.delivery
            if delivery.tag not in consumer.held:
                return DeliveryLost(f"delivery {delivery.tag} is not this consumer's any more")
            match settling:
                case Ack():
                    pass
                case Again(_, message, after):
                    self._put(replace(message, delay=after))
                case Bury(_, cause):
                    self._bury(consumer.queue, delivery, cause)
            del consumer.held[delivery.tag]
            self.hand_out(consumer.queue)
            return None

    def _bury(self, queue: str, delivery: Delivery, cause: Cause) -> None:
        message = delivery.message
        id = f"unread-{delivery.tag}" if message is None else message.id
        task = None if message is None else message.task
        dead = DeadMessage(id=id, task=task, queue=queue, raw=delivery.raw, cause=cause)
        self._queue(queue).dead.append(dead)
        self._queue(queue).buried[id] = delivery.raw if message is None else message

    def _take_dead(self, queue: str, ids: Sequence[str] | None) -> list[Message | bytes]:
        kept = self._queue(queue)
        taken = [each for each in kept.dead if ids is None or each.id in ids]
        kept.dead = [each for each in kept.dead if each not in taken]
        return [kept.buried.pop(each.id) for each in taken]

    def _take(self, message: Message) -> TransportError | None:
        if not self.available:
            return TransportUnavailable("the broker in memory is away; publish again")
        if message.queue not in self._queues:
            return _missing(message.queue)
        if message.delay > self.longest_delay:
            return TransportRefused(
                f"message {message.id} is to wait {message.delay:g} s; this broker holds one for at"
                f" most {self.longest_delay:g} s"
            )
        if (size := len(message.args.encode())) > self._max_size:
            return MessageTooLarge(
                f"message {message.id} has {size} bytes; this broker takes {self._max_size}"
            )
        self._put(message)
        return None

    def _put(self, message: Message) -> None:
        if message.delay <= 0:
            self._arrive(message)
            return
        timer = threading.Timer(message.delay, lambda: self._arrive(message, timer))
        timer.daemon = True
        self._timers.add(timer)
        timer.start()

    def _arrive(self, message: Message, timer: threading.Timer | None = None) -> None:
        with self._lock:
            if timer is not None:
                if timer not in self._timers:
                    return
                self._timers.discard(timer)
            self._queues[message.queue].ready.append(_Ready(replace(message, delay=0.0)))
            self.hand_out(message.queue)

    def hand_out(self, name: str) -> None:
        """Hand out what waits in a queue, to a consumer with room."""
        with self._lock:
            queue = self._queues[name]
            while queue.ready and (free := [each for each in queue.consumers if each.has_room()]):
                least = min(free, key=lambda each: len(each.held))
                least.hand(next(self._numbers), queue.ready.popleft())

    def _queue(self, name: str) -> _Queue:
        if name not in self._queues:
            raise _missing(name)
        return self._queues[name]

    def _check_available(self) -> None:
        if not self.available:
            raise TransportUnavailable("the broker in memory is away; try again")


class _Consumer:
    def __init__(
        self, transport: MemoryTransport, queue: str, prefetch: int, on_lost: OnLost
    ) -> None:
        self.queue = queue
        self.held: dict[int, tuple[Delivery, _Ready]] = {}
        self._transport, self._prefetch, self._on_lost = transport, prefetch, on_lost
        self._come: Arrivals[Delivery] = Arrivals()
        self._loop = asyncio.get_running_loop()

    @property
    def paused(self) -> TransportError | None:
        """Return None: an error breaks it; see `Consumer.paused`."""
        return None

    async def receive(self, most: int) -> list[Delivery]:
        """Wait for deliveries; see `Consumer.receive`."""
        return await self._come.take(most)

    async def settle(self, settlings: Sequence[Settling]) -> list[TransportError | None]:
        """Settle deliveries; see `Consumer.settle`."""
        return [self._transport.settle(self, each) for each in settlings]

    async def resize(self, prefetch: int) -> None:
        """Change the prefetch; see `Consumer.resize`."""
        self._prefetch = prefetch
        self._transport.hand_out(self.queue)

    async def stop(self) -> None:
        """Hand out no more; see `Consumer.stop`."""
        self._come.ended = True
        self._come.notify()

    def has_room(self) -> bool:
        """Return whether it may be handed one more."""
        return not self._come.ended and len(self.held) < self._prefetch

    def hand(self, number: int, waiting: _Ready) -> None:
        """Deliver a message, from any thread."""
        what, returned = waiting
        if isinstance(what, bytes):
            if self._transport.source is not None:
                foreign = ForeignMessage(body=what, id=f"{number:032x}", routing_key=self.queue)
                delivery = Delivery(None, what, None, number, foreign, returned=returned)
            else:
                delivery = Delivery(None, what, NO_MESSAGE, number)
        else:
            delivery = Delivery(what, what.args.encode(), None, number, returned=returned)
        self.held[number] = delivery, waiting
        self._call_soon(lambda: self._come.append(delivery))

    def take_back(self, broken: bool) -> list[_Ready]:
        """Return unsettled deliveries; it holds none any more."""
        held, self.held = list(self.held.values()), {}
        if broken:
            lost = [delivery for delivery, _ in held]
            self._call_soon(lambda: self._lose(lost))
        return [_Ready(what, returned + 1) for _, (what, returned) in held]

    def _lose(self, lost: list[Delivery]) -> None:
        self._come.broken = TransportUnavailable("the connection to the broker in memory is broken")
        self._come.clear()
        self._on_lost(lost)

    def _call_soon(self, what: Callable[[], None]) -> None:
        def call() -> None:
            what()
            self._come.notify()

        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(call)


class _Announcements:
    def __init__(self, announce: Callable[[bytes], None]) -> None:
        self._announce, self._loop = announce, asyncio.get_running_loop()
        self._come: Arrivals[bytes] = Arrivals()

    async def receive(self, seconds: float) -> bytes | None:
        """Wait for an announcement; see `Announcements.receive`."""
        return await self._come.next_within(seconds)

    async def tell(self, body: bytes) -> None:
        """Send an announcement; see `Announcements.tell`."""
        self._announce(body)

    def hear(self, body: bytes) -> None:
        """Take an announcement, from any thread."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._come.put, body)


def _afresh(message: Message) -> Message:
    return replace(message, attempt=1, lost=0, suspect=False, noted=False)


def _missing(queue: str) -> TransportMismatch:
    return TransportMismatch(
        f"the broker has no queue {queue!r}; make it with `mutirao transports declare`"
    )
