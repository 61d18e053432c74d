"""The port to a broker that carries messages to workers. `mutirao_conformance.transport` tests it.

A transport belongs to no event loop: it may be used from several, and has connections of its own
in each. It is never a store: what it promises is written here, and no more.
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
        """Why nothing is received for a while, though it goes on by itself; None: it is."""
        ...

    async def receive(self, most: int) -> list[Delivery]:
        """Wait for deliveries, and return one to `most` of them, in the order they came.

        Cancelling it loses nothing: what had come is returned by the next call. After `stop` it
        returns what had come before and then, at once, [].

        Raises:
            TransportUnavailable: the connection is gone. Deliveries that are not settled have been
                lost, and come again, to any consumer; leave this consumer and make another.
            TransportMismatch: the queue is not there (any more), or may not be consumed.
        """
        ...

    async def settle(self, settlings: Sequence[Settling]) -> list[TransportError | None]:
        """Settle deliveries; return for each, in order, None or why it is not settled.

        It returns when the broker has what it needs not to forget any: what comes again or is
        buried has been confirmed before the delivery is acknowledged. So a crash in between, on
        either side, repeats a message and never loses one. Settling is at the consumer that
        received. It does not raise for single deliveries:

            DeliveryLost: it is not this consumer's any more; it comes again, or is done elsewhere.
            TransportUnavailable: nobody knows; it comes again unless it was settled.
            TransportRefused: the broker refuses what shall come again or be buried. The delivery is
                still this consumer's.
        """
        ...

    async def resize(self, prefetch: int) -> None:
        """Change how many deliveries the broker hands out before they are settled.

        Raises:
            TransportUnavailable: the connection is gone.
        """
        ...

    async def stop(self) -> None:
        """Have the broker hand out no more; what it has handed out may be received and settled.

        Returns when nothing more can come. A second call does nothing. Never raises because the
        connection is gone.
        """
        ...


class Transport(Protocol):
    """A broker, as it carries the messages of some queues.

    Attributes:
        mode: "alone" if the message is the job; "carried" if the job is in a store, and the message
            a doorbell.
        longest_delay: the maximum seconds of `Message.delay` that `publish` takes.
        longest_again: the maximum seconds, from when something was received, after which it may
            come `Again`. What waits for longer goes on in the store; or comes sooner, where order
            is kept, which is where `longest_delay` is 0.
        rewrites: whether what comes `Again` comes as that says. Otherwise it comes as it was, with
            an attempt that the transport counts: one for every hand-out.
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
        """The maximum seconds, from its receipt, after which something may come again."""
        ...

    @property
    def rewrites(self) -> bool:
        """Whether a message comes again as was asked."""
        ...

    @property
    def source(self) -> str | None:
        """The queue of other programs that it consumes.

        Its deliveries have `foreign` instead of a message, as do those that came `Again`,
        with the attempt and the headers that were asked for. What waits or comes again is kept in a
        queue of ours, so that other consumers of theirs never meet it.
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
        under way at the same time; they may be delivered in another order. It raises for no single
        message, and for no broker that is away:

            TransportUnavailable: the broker is away, blocked, or did not confirm in time. Pass it
                again, with the same id.
            TransportRefused: this message will never pass: too long a delay.
            MessageTooLarge: it has more bytes than its queue takes.
            TransportMismatch: its queue is not there; `mutirao transports declare` makes it.
        """
        ...

    def consumer(
        self, queue: str, prefetch: int, on_lost: OnLost, *, grace: float = inf
    ) -> AbstractAsyncContextManager[Consumer]:
        """Consume a queue, until the block is left.

        A delivery is this consumer's until it is settled, lost, or the block is left: then it comes
        again, at once, to any consumer. Each message is delivered at least once, also twice.
        What cannot be read is delivered as well, with its problem.

        Parameters:
            queue: Mutirão's name of it.
            prefetch: how many deliveries are handed out before they are settled, from 1.
            on_lost: called, in the event loop, with deliveries that are not this consumer's any
                more, so that what they do can be given up.
            grace: seconds that stopping may take. Where the broker is asked in a way that cannot be
                broken off, nothing is asked that it may answer later than that.

        Raises:
            TransportUnavailable: the broker is away.
            TransportMismatch: the queue is not there.
        """
        ...

    async def declare(self, queues: Sequence[str]) -> list[str]:
        """Make at the broker what these queues need; return the names of what it has made sure of.

        Safe to repeat, and at once by several. Nothing that is there is changed.

        Raises:
            TransportUnavailable: the broker is away.
            TransportMismatch: something is there, and is otherwise; the message names what.
        """
        ...

    async def compare(self, queues: Sequence[str]) -> list[Difference]:
        """Return what is missing or otherwise than `declare` would make it; changes nothing.

        Raises:
            TransportUnavailable: the broker is away.
            TransportMismatch: the caller may not look there.
        """
        ...

    async def waiting(self, queue: str) -> int:
        """Return how many messages wait in a queue, without those that consumers hold.

        It may be some seconds old, and need not count what has a delay.

        Raises:
            TransportUnavailable: the broker is away.
            TransportMismatch: the queue is not there.
        """
        ...

    async def dead_count(self, queue: str) -> int:
        """Return how many dead messages of a queue there are, without a look at them.

        It may be some seconds old.

        Raises:
            TransportUnavailable: the broker is away.
            TransportMismatch: what keeps them is not there.
        """
        ...

    async def dead(self, queue: str, most: int) -> list[DeadMessage]:
        """Return dead messages of a queue, the oldest first. They stay where they are.

        Raises:
            TransportUnavailable: the broker is away.
            TransportMismatch: what keeps them is not there.
        """
        ...

    async def return_dead(self, queue: str, ids: Sequence[str] | None) -> int:
        """Send dead messages back to their queue, as their first attempt; return how many.

        What could not be read goes back as it came. `ids` None: all of the queue.

        Raises:
            TransportUnavailable: the broker is away; some may have gone back, none is lost.
            TransportMismatch: what keeps them is not there.
        """
        ...

    async def drop_dead(self, queue: str, ids: Sequence[str] | None) -> int:
        """Delete dead messages for good; return how many. `ids` None: all of the queue.

        Raises:
            TransportUnavailable: the broker is away; some may have been deleted.
            TransportMismatch: what keeps them is not there.
        """
        ...

    async def aclose(self) -> None:
        """Close the connections of the running event loop. The next use opens new ones.

        While something is consumed in this loop they stay: another worker may be there, whose
        deliveries would be lost. It closes them at its end.
        """
        ...


def is_for_people(error: BaseException) -> bool:
    """Return whether a broker refuses something until people repair it: waiting does not help."""
    passes = isinstance(error, TransportUnavailable) and not isinstance(error, TransportDenied)
    return isinstance(error, TransportError) and not passes
