"""The port to a broker that carries messages to workers. `mutirao_conformance.transport` tests it.

A transport belongs to no event loop: it may be used from several, and has connections of its own
in each. It is never a store: it promises what is written here, and no more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from math import inf
from typing import TYPE_CHECKING, Protocol

from mutirao.errors import TransportDenied, TransportError, TransportUnavailable

if TYPE_CHECKING:
    from mutirao.model.brokers.message import (
        DeadMessage,
        Delivery,
        Difference,
        Message,
        Mode,
        Settling,
    )

OnLost = Callable[[Sequence["Delivery"]], None]


class Consumer(Protocol):
    """The deliveries of one queue to one worker. All of it is called in one event loop."""

    @property
    def paused(self) -> TransportError | None:
        """Why receiving is interrupted, although it continues by itself; None: it is not."""
        ...

    async def receive(self, most: int) -> list[Delivery]:
        """Wait for deliveries, and return one to `most` of them, in the order they came.

        Cancelling it loses nothing: received deliveries are returned by the next call. After `stop`
        it returns the remaining ones and then, at once, [].

        Raises:
            TransportUnavailable: the connection is gone. Deliveries that are not settled have been
                lost, and are delivered again, to any consumer; leave this one and make another.
            TransportMismatch: the queue is missing, or may not be consumed.
        """
        ...

    async def settle(self, settlings: Sequence[Settling]) -> list[TransportError | None]:
        """Settle deliveries; return for each, in order, None or why it is not settled.

        It returns when the broker cannot lose any of them: messages to deliver again or to bury
        have been confirmed before the delivery is acknowledged. So a crash in between, on either
        side, repeats a message and never loses one. Deliveries are settled at the consumer that
        received them. It does not raise for single deliveries:

            DeliveryLost: it is not this consumer's any more; it is delivered again, or is settled
                elsewhere.
            TransportUnavailable: the result is unknown; it is delivered again unless settled.
            TransportRefused: the broker refuses the message to deliver again or bury. The
                delivery is still this consumer's.
        """
        ...

    async def resize(self, prefetch: int) -> None:
        """Change how many unsettled deliveries the broker sends.

        Raises:
            TransportUnavailable: the connection is gone.
        """
        ...

    async def stop(self) -> None:
        """Ask the broker to send no more; deliveries that it has sent may be received and settled.

        Returns when nothing more can come. A second call does nothing. Never raises because the
        connection is gone.
        """
        ...


class Transport(Protocol):
    """A broker that carries the messages of some queues.

    Attributes:
        mode: "alone" if the message is the job; "carried" if the job is in a store, and the message
            a doorbell.
        longest_delay: the maximum seconds of `Message.delay` that `publish` takes.
        longest_again: the maximum seconds, from its receipt, after which a message may come
            `Again`. A longer wait moves the job to the store; in a queue that keeps an order, where
            `longest_delay` is 0, it comes sooner.
        rewrites: whether a message comes `Again` with the given attempt and headers. Otherwise it
            comes unchanged, with an attempt that the transport counts: one for every delivery.
        source: the queue of other programs that it consumes, for `@app.consumer`; None: none.
    """

    @property
    def mode(self) -> Mode:
        """How its messages relate to the store."""
        ...

    @property
    def longest_delay(self) -> float:
        """The maximum seconds of a message's delay."""
        ...

    @property
    def longest_again(self) -> float:
        """The maximum seconds, from its receipt, after which a message may be delivered again."""
        ...

    @property
    def rewrites(self) -> bool:
        """Whether a message is delivered again with the given attempt and headers."""
        ...

    @property
    def source(self) -> str | None:
        """The queue of other programs that it consumes.

        Its deliveries have `foreign` instead of a message, also those that came `Again`, with the
        given attempt and headers. Messages that wait or are retried are kept in a queue of Mutirão,
        so that other consumers of that queue never receive them.
        """
        ...

    @property
    def name(self) -> str:
        """The broker's name for people: its URL without secrets, or the like."""
        ...

    async def publish(self, messages: Sequence[Message]) -> list[TransportError | None]:
        """Publish messages; return for each, in order, None or why it is not published.

        None: the broker has confirmed that it keeps the message, and that it has a queue for it. A
        message that was reported as unavailable may have been published all the same. Many are
        published at the same time; they may be delivered in another order. It does not raise for
        single messages, or for a broker that is unavailable:

            TransportUnavailable: the broker is away, blocked, or did not confirm in time. Pass it
                again, with the same id.
            TransportRefused: this message will never pass: too long a delay.
            MessageTooLarge: it has more bytes than its queue takes.
            TransportMismatch: its queue is missing; `mutirao transports declare` makes it.
        """
        ...

    def consumer(
        self, queue: str, prefetch: int, on_lost: OnLost, *, grace: float = inf
    ) -> AbstractAsyncContextManager[Consumer]:
        """Consume a queue, until the block is left.

        A delivery is this consumer's until it is settled, lost, or the block is left: then it comes
        again, at once, to any consumer. Each message is delivered at least once, maybe twice. A
        message that cannot be read is delivered as well, with its problem.

        Parameters:
            queue: Mutirão's name of it.
            prefetch: how many deliveries are sent before they are settled, from 1.
            on_lost: called, in the event loop, with deliveries that are not this consumer's any
                more, so that their attempts can be ended.
            grace: seconds that stopping may take. If requests to the broker cannot be cancelled,
                none is sent whose answer may come later than that.

        Raises:
            TransportUnavailable: the broker is away.
            TransportMismatch: the queue is not there.
        """
        ...

    async def declare(self, queues: Sequence[str]) -> list[str]:
        """Make at the broker what these queues need; return the names of these objects.

        Safe to repeat, also by several at once. Existing objects are not changed.

        Raises:
            TransportUnavailable: the broker is away.
            TransportMismatch: an object exists and is different; the message names it.
        """
        ...

    async def compare(self, queues: Sequence[str]) -> list[Difference]:
        """Return what is missing or differs from what `declare` makes; changes nothing.

        Raises:
            TransportUnavailable: the broker is away.
            TransportMismatch: the caller may not look there.
        """
        ...

    async def waiting(self, queue: str) -> int:
        """Return how many messages wait in a queue, without those that consumers hold.

        It may be some seconds old, and need not count delayed messages.

        Raises:
            TransportUnavailable: the broker is away.
            TransportMismatch: the queue is missing.
        """
        ...

    async def dead_count(self, queue: str) -> int:
        """Return how many dead messages of a queue there are, without reading them.

        It may be some seconds old.

        Raises:
            TransportUnavailable: the broker is away.
            TransportMismatch: the place that keeps them is missing.
        """
        ...

    async def dead(self, queue: str, most: int) -> list[DeadMessage]:
        """Return dead messages of a queue, the oldest first. They stay where they are.

        Raises:
            TransportUnavailable: the broker is away.
            TransportMismatch: the place that keeps them is missing.
        """
        ...

    async def return_dead(self, queue: str, ids: Sequence[str] | None) -> int:
        """Send dead messages back to their queue, as their first attempt; return how many.

        An unreadable message goes back unchanged. `ids` None: all of the queue.

        Raises:
            TransportUnavailable: the broker is away; some may have gone back, none is lost.
            TransportMismatch: the place that keeps them is missing.
        """
        ...

    async def drop_dead(self, queue: str, ids: Sequence[str] | None) -> int:
        """Delete dead messages for good; return how many. `ids` None: all of the queue.

        Raises:
            TransportUnavailable: the broker is away; some may have been deleted.
            TransportMismatch: the place that keeps them is missing.
        """
        ...

    async def aclose(self) -> None:
        """Close the connections of the running event loop. The next use opens new ones.

        Connections stay while something is consumed in this loop: another worker may use them,
        whose deliveries would be lost. It closes them at its end.
        """
        ...


def is_for_people(error: BaseException) -> bool:
    """Return whether a broker refuses something until a person acts: waiting does not help."""
    passes = isinstance(error, TransportUnavailable) and not isinstance(error, TransportDenied)
    return isinstance(error, TransportError) and not passes
