"""A broker like SQS, a transport that uses it, and the time: for tests of its faults."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from mutirao.model.brokers.message import Delivery, Message
from mutirao.transports.sqs import SQS
from mutirao.transports.sqs.consumer import SqsConsumer
from mutirao.transports.sqs.leases import Timing
from tests.support.sqs_faults import FakeSqs
from tests.support.waiting import soon

VISIBILITY = 30


class World:
    """A broker, a transport and the time.

    `rate`: seconds that pass at the broker in one of ours; `ahead`: seconds that its clock is.
    """

    def __init__(self, rate: float = 1.0, ahead: float = 0.0, **options: Any) -> None:
        self.now = 1_000.0
        self.broker = FakeSqs(lambda: self.now * rate + ahead)
        self.fifo = options.get("fifo", False)
        self.name = "q.fifo" if self.fifo else "q"
        self.lost: list[str] = []
        timing = Timing(lambda: self.now, self.wait, threaded=False)
        both = self.broker, self.broker
        options = {"visibility": VISIBILITY, "wait": 1, **options}
        self.transport = SQS(clients=lambda: both, timing=timing, **options)

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds

    def beat(self) -> float:
        """Have the heartbeat make a turn; return the seconds until the next one."""
        return self.transport._open().heartbeat.turn()

    async def publish(self, *messages: Message) -> None:
        """Publish messages that all pass."""
        await self.transport.declare(["q"])
        assert await self.transport.publish(messages) == [None] * len(messages)

    @asynccontextmanager
    async def consuming(self, prefetch: int = 10) -> AsyncIterator[SqsConsumer]:
        """Consume the queue, and note what is lost."""
        async with self.transport.consumer("q", prefetch, self._lose) as consumer:
            yield consumer

    def visible_in(self) -> list[float]:
        """Return the seconds, of the broker, after which each message is visible."""
        now = self.broker.clock()
        return [each.visible_at - now for each in self.broker.queues[self.name].messages]

    def _lose(self, lost: Any) -> None:
        self.lost += [id_of(each) for each in lost]


def message(id: str, **options: Any) -> Message:
    """Return a message."""
    return Message(**{"id": id, "task": "encode", "queue": "q", **options})


def id_of(delivery: Delivery) -> str:
    """Return the id of a message."""
    assert delivery.message is not None
    return delivery.message.id


async def receive(consumer: SqsConsumer, number: int = 1) -> list[Delivery]:
    """Receive so many."""
    found: list[Delivery] = []
    while len(found) < number:
        found += await soon(consumer.receive(number - len(found)))
    return found
