"""The contract of a transport, in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import pytest

from mutirao.model.brokers.message import Delivery
from mutirao.ports import Transport
from mutirao.ports.events import Drops, EventFeed, TellsEvents
from mutirao.transports.event_buffer import EventBuffer
from mutirao.transports.memory import MemoryTransport
from mutirao_conformance import EventsContract, TransportContract
from mutirao_conformance.events import event
from mutirao_conformance.kit import deadline
from mutirao_conformance.transport import (
    OTHER,
    QUEUE,
    PublishForeign,
    letter,
    publish,
    receive,
)


class TestMemoryTransport(TransportContract):
    """A broker in this process."""

    @pytest.fixture
    async def transport(self) -> AsyncIterator[MemoryTransport]:
        """A broker with the queues of the contract."""
        transport = MemoryTransport()
        await transport.declare([QUEUE, OTHER])
        yield transport
        await transport.aclose()

    @pytest.fixture
    def unreachable(self) -> Transport:
        """A broker that is away."""
        transport = MemoryTransport()
        transport.available = False
        return transport

    @pytest.fixture
    def publish_foreign(self, transport: MemoryTransport) -> PublishForeign:
        """Anything at all."""

        async def publish(queue: str, body: bytes) -> None:
            transport.publish_raw(queue, body)

        return publish

    async def test_a_broken_connection(self, transport: MemoryTransport) -> None:
        """Who consumed is told what was lost, and it comes again."""
        await publish(transport, letter())
        lost: list[Sequence[Delivery]] = []
        async with deadline(), transport.consumer(QUEUE, 5, lost.append) as consumer:
            (delivery,) = await receive(consumer)
            transport.lose_consumers()
            with pytest.raises(Exception, match="broken"):
                await consumer.receive(1)
        assert lost == [[delivery]]


class TestMemoryEvents(EventsContract):
    """Events in this process."""

    @pytest.fixture
    def transport(self) -> MemoryTransport:
        """A broker that tells."""
        return MemoryTransport(tells=True)

    @pytest.fixture
    def unreachable(self) -> TellsEvents:
        """A broker that is away."""
        transport = MemoryTransport(tells=True)
        transport.available = False
        return transport


async def test_gaps_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    """By the numbers of one teller and key; they are told once, not with each."""
    feed = EventFeed(100)
    feed.put("a", 5, [event()] * 2)
    feed.put("a", 9, [event()])
    feed.put("b", 3, [event()])
    feed.put("a", 0, [event(task="other")])
    assert feed.drops.number == 2
    feed.put("a", 11, [event()])
    assert feed.drops.number == 3
    assert [record.message for record in caplog.records] == [
        "2 events were dropped before they were read"
    ]


async def test_a_buffer_that_is_full() -> None:
    """What it drops is a gap behind what it keeps, of each key."""
    drops = Drops("here")
    buffer = EventBuffer(drops, most=3)
    for n in range(5):
        buffer.add(event(str(n)))
    buffer.add(event(task="other"))
    [first] = buffer.take()
    assert (first.first, len(first.events), drops.number) == (0, 3, 3)
    assert not buffer
    buffer.add(event())
    buffer.add(event(task="other"))
    assert [(each.key.task, each.first) for each in buffer.take()] == [
        ("shop.greet", 5),
        ("other", 1),
    ]
